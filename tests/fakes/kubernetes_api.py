"""A small Kubernetes API server on loopback that keeps state: secrets, jobs, pods and their logs.

It refuses what the real one refuses of the manifests that matter here, places pods on nodes as its scheduler would,
and a kubelet runs each pod's command as a process of this machine.
"""

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fakes.kubernetes_cluster import Cluster
from fakes.kubernetes_objects import Refusal


class ApiServer:
    """The server; `cluster` is everything it knows."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.requests: list[tuple[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "ApiServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.cluster.close()

    def answer(self, method: str, path: str, query: dict[str, str], body: dict[str, Any] | None) -> Any:
        """The object or the text that a request gets; raises Refusal."""
        self.requests.append((method, path))
        core, batch = r"/api/v1/namespaces/([^/]+)", r"/apis/batch/v1/namespaces/([^/]+)"
        cluster = self.cluster
        routes: list[tuple[str, str, Callable[..., Any]]] = [
            ("POST", rf"{core}/secrets", lambda space: cluster.create_secret(space, body or {})),
            ("DELETE", rf"{core}/secrets/([^/]+)", cluster.delete_secret),
            ("POST", rf"{batch}/jobs", lambda space: cluster.create_job(space, body or {})),
            ("GET", rf"{batch}/jobs/([^/]+)(?:/status)?", cluster.read_job),
            ("DELETE", rf"{batch}/jobs/([^/]+)", cluster.delete_job),
            ("GET", rf"{core}/pods", lambda space: cluster.list_pods(space, query.get("labelSelector", ""))),
            ("DELETE", rf"{core}/pods/([^/]+)", cluster.delete_pod),
            ("GET", rf"{core}/pods/([^/]+)/log", lambda *pod: cluster.pod_log(*pod, "previous" in query)),
        ]
        for verb, pattern, act in routes:
            if verb == method and (match := re.fullmatch(pattern, path)):
                return act(*match.groups())
        raise Refusal(404, "NotFound", f"no such resource: {method} {path}")


def _handler(server: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            try:
                status, answer = 200, server.answer(self.command, parts.path, query, body)
            except Refusal as refusal:
                status, answer = refusal.code, refusal.status()
            text = answer if isinstance(answer, str) else json.dumps(answer)
            payload = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the tests read `requests`."""

    return Requests
