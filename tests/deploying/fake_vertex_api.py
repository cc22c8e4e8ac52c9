"""A stand-in for the part of Vertex AI's REST API that deploying needs: it keeps state and refuses as that does.

Paths, resources, operations and errors have the real one's forms. How long things take is this stand-in's own; while a
deployment is going on it takes the harder answer: nothing of it can be undeployed or deleted.
"""

import itertools
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PLACE = "projects/pays/locations/us-central1"
TYPE = "type.googleapis.com/google.cloud.aiplatform.v1."
DENIED = (
    403,
    "PERMISSION_DENIED",
    "Permission 'aiplatform.models.upload' denied on resource '//aiplatform.googleapis.com'",
)
DISABLED = 403, "PERMISSION_DENIED", "Vertex AI API has not been used in project 123 before or it is disabled."
UNKNOWN = 401, "UNAUTHENTICATED", "Request had invalid authentication credentials."
QUOTA = 429, "RESOURCE_EXHAUSTED", "Quota exceeded: CustomModelServingCPUsPerProjectPerRegion"
BUSY = 503, "UNAVAILABLE", "The service is currently unavailable."
STATE = 400, "FAILED_PRECONDITION", "The resource is being used by another operation or has deployed models."
NO_CAPACITY = 8, "Machine type temporarily unavailable, please deploy with a different machine type or retry."
CRASHED = 3, "Model server exited unexpectedly. Model server logs can be found at ..."


class RefusedError(Exception):
    """The request ends with an error: HTTP status, code, message."""


@dataclass
class FakeVertexApi:
    """State, and what is to go wrong; `address` is host:port."""

    delay: float = 0.05  # seconds that an operation takes
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    endpoints: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    busy: Counter = field(default_factory=Counter)  # endpoints with operations that are going on
    calls: Counter = field(default_factory=Counter)
    refusals: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)  # call: errors to come
    operation_errors: dict[str, tuple[int, str]] = field(default_factory=dict)  # call: what its operation ends with
    unanswered: set[str] = field(default_factory=set)  # calls that are carried out and whose answer is lost
    on_call: dict[str, Callable[[], None]] = field(default_factory=dict)
    paid: list[str] = field(default_factory=list)  # machine types that were ever started

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def costs_money(self) -> list[str]:
        """Deployed models of all endpoints, those that are being deployed included."""
        return [model["id"] for one in self.endpoints.values() for model in one["deployedModels"]] + list(
            name for name, count in self.busy.items() if count
        )

    def handle(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[str, Any]:
        """Name of the call, and its answer; raises RefusedError."""
        with self._lock:
            self._settle()
            call, answer = self._routed(method, path, query, body)
            return call, answer

    def begin(self, method: str, path: str) -> None:
        """Count a call, and refuse it if that is planned."""
        call = _call(method, path)
        with self._lock:
            self.calls[call] += 1
            planned = self.refusals.get(call)
            refusal = planned.pop(0) if planned else None
        if call in self.on_call:
            self.on_call.pop(call)()
        if refusal:
            raise RefusedError(*refusal)

    def _routed(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[str, Any]:
        call = _call(method, path)
        if call == "upload":
            made = self._made(self.models, "models", {**body["model"]})
            return call, self._operation(call, PLACE, {"@type": TYPE + "UploadModelResponse", "model": made})
        if call == "create":
            made = self._made(self.endpoints, "endpoints", {**body, "deployedModels": []})
            return call, self._operation(call, PLACE, {"@type": TYPE + "Endpoint", **self.endpoints[made]})
        if call.startswith("list"):
            kind = "models" if call == "list models" else "endpoints"
            found = [one for one in getattr(self, kind).values() if _matches(one, query.get("filter", [""])[0])]
            return call, {kind: found}
        name = path.rpartition(":")[0] if ":" in path else path
        if call == "operation":
            if name not in self.operations:
                raise RefusedError(404, "NOT_FOUND", f"operation {name} not found")
            return call, self.operations[name]["shown"]
        kind = self.endpoints if "/endpoints/" in name else self.models
        if name not in kind:
            raise RefusedError(404, "NOT_FOUND", f"{name} is not found.")
        return call, getattr(self, f"_{call.replace(' ', '_')}")(name, body)

    def _deploy(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        model = body["deployedModel"]
        assert model["model"] in self.models, "deploys a model that is not registered"
        self.busy[name] += 1
        self.paid.append(model["dedicatedResources"]["machineSpec"]["machineType"])

        def done() -> None:
            self.busy[name] -= 1
            if "deploy" not in self.operation_errors:
                self.endpoints[name]["deployedModels"].append({**model, "id": str(next(self._numbers))})

        return self._operation("deploy", name, {"@type": TYPE + "DeployModelResponse"}, done)

    def _undeploy(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.busy[name]:
            raise RefusedError(*STATE)
        self.busy[name] += 1
        kept = [one for one in self.endpoints[name]["deployedModels"] if one["id"] != body["deployedModelId"]]

        def done() -> None:
            self.busy[name] -= 1
            self.endpoints[name]["deployedModels"] = kept

        return self._operation("undeploy", name, {"@type": TYPE + "UndeployModelResponse"}, done)

    def _delete_endpoints(self, name: str, body: Any) -> dict[str, Any]:
        if self.busy[name] or self.endpoints[name]["deployedModels"]:
            raise RefusedError(*STATE)
        return self._operation(
            "delete",
            PLACE,
            {"@type": "type.googleapis.com/google.protobuf.Empty"},
            lambda: self.endpoints.pop(name, None),
        )

    def _delete_models(self, name: str, body: Any) -> dict[str, Any]:
        used = [one["model"] for endpoint in self.endpoints.values() for one in endpoint["deployedModels"]]
        if name in used or any(self.busy.values()):
            raise RefusedError(*STATE)
        return self._operation(
            "delete", PLACE, {"@type": "type.googleapis.com/google.protobuf.Empty"}, lambda: self.models.pop(name, None)
        )

    def _made(self, kind: dict[str, dict[str, Any]], name: str, resource: dict[str, Any]) -> str:
        path = f"{PLACE}/{name}/{next(self._numbers)}"
        kind[path] = {**resource, "name": path}
        return path

    def _operation(
        self, call: str, parent: str, response: dict[str, Any], done: Callable[[], Any] = lambda: None
    ) -> dict[str, Any]:
        name = f"{parent}/operations/{next(self._numbers)}"
        error = self.operation_errors.get(call)
        end = {"error": {"code": error[0], "message": error[1]}} if error else {"response": response}
        shown = {"name": name, "done": False}
        self.operations[name] = {"shown": shown, "at": time.monotonic() + self.delay, "done": done, "end": end}
        return dict(shown)

    def _settle(self) -> None:
        for operation in self.operations.values():
            if not operation["shown"]["done"] and time.monotonic() >= operation["at"]:
                operation["done"]()
                operation["shown"].update(done=True, **operation["end"])


def _call(method: str, path: str) -> str:
    """A short name of each call."""
    verb = path.rpartition(":")[2] if ":" in path else ""
    if verb:
        return {"upload": "upload", "deployModel": "deploy", "undeployModel": "undeploy"}[verb]
    if re.search(r"/operations/\d+$", path):
        return "operation"
    kind = re.search(r"/(models|endpoints)(/\d+)?$", path)
    assert kind, f"{method} {path} is no call that deploying needs"
    return {"POST": "create", "DELETE": f"delete {kind[1]}", "GET": f"list {kind[1]}"}[method]


def _matches(resource: dict[str, Any], condition: str) -> bool:
    key, _, value = condition.removeprefix("labels.").replace(":*", "=*").partition("=")
    label = resource.get("labels", {}).get(key)
    return label is not None and value in ("*", label)


class _Handler(BaseHTTPRequestHandler):
    api: FakeVertexApi
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        path = url.path.removeprefix("/v1/").removeprefix("/ui/")  # the library asks for operations below /ui/
        try:
            self.api.begin(self.command, path)
            call, answer = self.api.handle(self.command, path, parse_qs(url.query), json.loads(body) if body else None)
            status, content = 200, json.dumps(answer)
        except RefusedError as error:
            number, code, message = error.args
            call, status = "", number
            content = json.dumps({"error": {"code": number, "status": code, "message": message}})
        if call in self.api.unanswered:
            self.api.unanswered.discard(call)
            self.close_connection = True
            return
        data = content.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing."""
