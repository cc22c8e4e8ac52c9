"""A stand-in for Google's Cloud TPU REST API (version 2) on loopback, which keeps state and refuses as that does.

Resources, operations and errors have the real one's paths and forms. How long things take, and whether a machine that
is being made may be deleted, are this stand-in's own; it takes the harder answer (no).
"""

import itertools
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cloud.fake_tpu_server import RefusedError, serve
from cloud.google_errors import NO_CAPACITY

STATES = {"CREATING": 1, "READY": 2, "DELETING": 5, "PREEMPTED": 11, "TERMINATED": 12}  # Node.State
QUEUE_STATES = {"CREATING": 1, "ACCEPTED": 2, "PROVISIONING": 3, "FAILED": 4, "DELETING": 5, "ACTIVE": 6}
QUEUE_STATES |= {"SUSPENDING": 7, "SUSPENDED": 8, "WAITING_FOR_RESOURCES": 9}  # QueuedResourceState.State
TYPE = "type.googleapis.com/google.cloud.tpu.v2."
RESOURCE = re.compile(r"(projects/[^/]+/locations/([^/]+))/(nodes|queuedResources|operations)(?:/([^/:]+))?(:\w+)?")

BAD_STATE = 400, "FAILED_PRECONDITION", "Cloud TPU received a bad request. the resource is in state {}"


@dataclass
class FakeTpuApi:
    """State, and what is to go wrong; `address` is host:port."""

    machine_made: Callable[[dict[str, Any]], dict[str, Any]]  # node as asked: its network endpoint and host keys
    machine_gone: Callable[[str], None]
    delay: float = 0.15  # seconds that making or deleting takes
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    queue: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: Counter = field(default_factory=Counter)
    zones: list[str] = field(default_factory=list)  # in which a machine was asked for
    refusals: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)  # call: errors to come
    operation_errors: dict[str, tuple[int, str]] = field(default_factory=dict)  # zone: what making ends with
    permissions: list[str] = field(default_factory=lambda: ["tpu.nodes.delete"])  # of the machine's service account
    leaves_a_wreck: bool = False  # making that failed leaves a machine behind
    stuck_in: str | None = None  # state in which making ends instead of READY
    queue_ends_in: str = "ACTIVE"
    unanswered: set[str] = field(default_factory=set)  # calls that are carried out and whose answer is lost
    late: float = 0.0  # seconds after a lost answer at which the machine appears
    on_call: dict[str, Callable[[], None]] = field(default_factory=dict)
    on_test: dict[str, Callable[[], None]] = field(default_factory=dict)  # what a machine of a test may ask for

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._server = serve(self)

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def alive(self) -> list[str]:
        """Names of every machine and queued request that is there or still to come."""
        with self._lock:
            return [path.rpartition("/")[2] for path in (*self.nodes, *self.queue)]

    def act(self, what: str) -> dict[str, Any]:
        """Asked by a machine of a test: `preempt` or `delete` every machine, as Google or somebody else would."""
        if what in self.on_test:
            self.on_test[what]()
            return {}
        with self._lock:
            for path, node in list(self.nodes.items()):
                node["state"] = STATES["PREEMPTED"]
                self.machine_gone(path.rpartition("/")[2])
                if what == "delete":
                    del self.nodes[path]
        return {}

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> dict[str, Any]:
        """One request; raises RefusedError."""
        match = RESOURCE.fullmatch(path)
        if match is None:
            raise RefusedError(404, "NOT_FOUND", f"no {path}")
        parent, zone, collection, name, verb = match.groups()
        call = (
            f"{verb or {'GET': 'get' if name else 'list', 'POST': 'create', 'DELETE': 'delete'}[method]} {collection}"
        )
        self.calls[call] += 1
        self.on_call.get(call, lambda: None)()
        with self._lock:
            if self.refusals.get(call):
                raise RefusedError(*self.refusals[call].pop(0))
            done = self._act(call, parent, zone, name or "", query, body)
        if call in self.unanswered:
            self.unanswered.discard(call)
            raise ConnectionAbortedError
        return done

    def _act(self, call: str, parent: str, zone: str, name: str, query: dict[str, list[str]], body: Any) -> Any:
        path = f"{parent}/{call.split()[1]}/{name}"
        if call == "get operations":
            return self._found(self.operations, path)
        if call == "create nodes":
            return self._create_node(parent, zone, query["nodeId"][0], body)
        if call == "create queuedResources":
            return self._enqueue(parent, zone, query["queuedResourceId"][0], body)
        if call == ":getGuestAttributes nodes":
            return self._found(self.nodes, path)["guestAttributes"]
        if call.startswith("get"):
            return self._found(self.nodes if "nodes" in call else self.queue, path)
        if call == "delete nodes":
            return self._delete_node(path)
        if call == "delete queuedResources":
            return self._delete_queued(path, query.get("force") == ["true"])
        here = [
            one for where, one in (self.nodes if "nodes" in call else self.queue).items() if where.startswith(parent)
        ]
        return {call.split()[1]: here}

    def _found(self, collection: dict[str, dict[str, Any]], path: str) -> dict[str, Any]:
        if path not in collection:
            raise RefusedError(404, "NOT_FOUND", f"Resource '{path}' was not found")
        return collection[path]

    def _create_node(self, parent: str, zone: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        self.zones.append(zone)
        path = f"{parent}/nodes/{name}"
        if path in self.nodes:
            raise RefusedError(409, "ALREADY_EXISTS", f"Resource '{path}' already exists")
        operation = self._operation(parent)
        late = self.late if "create nodes" in self.unanswered else 0.0
        if late:
            self._later(lambda: self._appear(path, body), late)
        else:
            self._appear(path, body)
        self._later(lambda: self._make(path, zone, operation), late + self.delay)
        return operation

    def _appear(self, path: str, body: dict[str, Any]) -> None:
        self.nodes[path] = {**body, "name": path, "state": STATES["CREATING"], "createTime": _now()}

    def _make(self, path: str, zone: str, operation: dict[str, Any]) -> None:
        operation["done"] = True
        if path not in self.nodes:
            return
        if zone in self.operation_errors:
            code, message = self.operation_errors[zone]
            operation["error"] = {"code": code, "message": message}
            self.nodes[path]["state"] = STATES["TERMINATED"]
            if not self.leaves_a_wreck:
                del self.nodes[path]
            return
        operation["response"] = {"@type": f"{TYPE}Node", "name": path}
        node = self.nodes[path]
        if self.stuck_in is not None:
            node["state"] = STATES[self.stuck_in]
            return
        endpoint, host_keys = self.machine_made(node)
        keys = [{"namespace": "hostkeys", "key": kind, "value": value} for kind, value in host_keys]
        node["guestAttributes"] = {"guestAttributes": [{"queryPath": "hostkeys/", "queryValue": {"items": keys}}]}
        node |= {"state": STATES["READY"], "networkEndpoints": [endpoint]}

    def _delete_node(self, path: str) -> dict[str, Any]:
        node = self._found(self.nodes, path)
        if node["state"] in (STATES["CREATING"], STATES["DELETING"]):
            raise RefusedError(*BAD_STATE[:2], BAD_STATE[2].format(node["state"]))
        operation = self._operation(path.split("/nodes/")[0])
        self._start_deleting(path, operation)
        return operation

    def _start_deleting(self, path: str, operation: dict[str, Any]) -> None:
        self.nodes[path]["state"] = STATES["DELETING"]
        self.machine_gone(path.rpartition("/")[2])

        def gone() -> None:
            self.nodes.pop(path, None)
            operation.update(done=True, response={"@type": "type.googleapis.com/google.protobuf.Empty"})

        self._later(gone, self.delay)

    def _enqueue(self, parent: str, zone: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        self.zones.append(zone)
        path = f"{parent}/queuedResources/{name}"
        operation = self._operation(parent)
        operation |= {"done": True, "response": {"@type": f"{TYPE}QueuedResource", "name": path}}
        request = {
            **body,
            "name": path,
            "createTime": _now(),
            "state": {"state": QUEUE_STATES["WAITING_FOR_RESOURCES"]},
        }
        self.queue[path] = request

        def grant() -> None:
            if path not in self.queue or request["state"]["state"] != QUEUE_STATES["WAITING_FOR_RESOURCES"]:
                return
            request["state"]["state"] = QUEUE_STATES[self.queue_ends_in]
            if self.queue_ends_in == "FAILED":
                request["state"]["failedData"] = {"error": {"code": 8, "message": NO_CAPACITY[1]}}
            if self.queue_ends_in == "ACTIVE":
                spec = request["tpu"]["nodeSpec"][0]
                node = f"{parent}/nodes/{spec['nodeId']}"
                self._appear(node, {**spec["node"], "queuedResource": path})
                self._make(node, zone, {})

        self._later(grant, self.delay)
        return operation

    def _delete_queued(self, path: str, force: bool) -> dict[str, Any]:
        request = self._found(self.queue, path)
        free = (QUEUE_STATES["FAILED"], QUEUE_STATES["SUSPENDED"], QUEUE_STATES["WAITING_FOR_RESOURCES"])
        state = request["state"]["state"]
        if state == QUEUE_STATES["DELETING"] or (state not in free and not force):
            raise RefusedError(*BAD_STATE[:2], BAD_STATE[2].format(state))
        request["state"]["state"] = QUEUE_STATES["DELETING"]
        for node in [name for name, one in self.nodes.items() if one.get("queuedResource") == path]:
            self._start_deleting(node, {})
        self._later(lambda: self.queue.pop(path, None), self.delay * 1.5)
        return self._operation(path.split("/queuedResources/")[0])

    def _operation(self, parent: str) -> dict[str, Any]:
        name = f"{parent}/operations/operation-{next(self._numbers)}"
        self.operations[name] = {"name": name, "done": False}
        return self.operations[name]

    def _later(self, action: Callable[[], Any], seconds: float) -> None:
        def act() -> None:
            with self._lock:
                action()

        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
