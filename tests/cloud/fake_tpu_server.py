"""The stand-in's HTTP side: JSON in, JSON or one of Google's errors out."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from cloud.fake_tpu_api import FakeTpuApi


class RefusedError(Exception):
    """The request ends with an error: HTTP status, status, message."""


def serve(api: "FakeTpuApi") -> ThreadingHTTPServer:
    """A server on a free port of loopback, in threads of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    api: "FakeTpuApi"
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""

    def _handle(self) -> None:
        address = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        try:
            if address.path.startswith("/test/"):
                code, told = 200, self.api.act(address.path.removeprefix("/test/"))
            elif address.path.endswith("/token"):
                code, told = 200, {"access_token": "a-token", "expires_in": 3599, "token_type": "Bearer"}
            elif address.path.endswith(":testIamPermissions"):
                code, told = 200, {"permissions": [one for one in body["permissions"] if one in self.api.permissions]}
            else:
                code, told = (
                    200,
                    self.api.answer(self.command, address.path.removeprefix("/v2/"), parse_qs(address.query), body),
                )
        except RefusedError as refused:
            code, status, message = refused.args
            told = {"error": {"code": code, "status": status, "message": message}}
        except ConnectionAbortedError:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        content = json.dumps(told).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _handle  # noqa: N815
