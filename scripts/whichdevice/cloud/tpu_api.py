"""Google's Cloud TPU API, version 2: the few calls that a study needs, through Google's own client library."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from whichdevice.cloud.api_errors import one_line, refusal
from whichdevice.errors import StudyError
from whichdevice.google_api_errors import RefusedError, UnreachableError

if TYPE_CHECKING:
    from google.cloud.tpu_v2 import Node, QueuedResource, TpuClient

EMULATOR = "TPU_EMULATOR_HOST"  # host:port of a stand-in for the API, which gets no credentials
MISSING = "the TPU client library is not installed: sh envs/extra.sh cloud"
PATIENCE = 30.0  # seconds that one request may take


@dataclass(frozen=True)
class Place:
    """Where a machine is: the project that pays and the zone."""

    project: str
    zone: str

    @property
    def parent(self) -> str:
        """The API's name of the place."""
        return f"projects/{self.project}/locations/{self.zone}"


@dataclass(frozen=True)
class Alive:
    """A TPU VM, or a queued request for one, that the API knows."""

    name: str
    place: Place
    queued: bool
    state: str
    accelerator_type: str
    labels: dict[str, str]
    made: datetime
    request: str | None = None  # of a VM: the queued request that brought it

    @property
    def path(self) -> str:
        """The API's name of it."""
        return f"{self.place.parent}/{'queuedResources' if self.queued else 'nodes'}/{self.name}"


class TpuApi:
    """Calls to the API; each raises a StudyError of api_errors with one line."""

    @cached_property
    def client(self) -> "TpuClient":
        """The library's client, over REST."""
        try:
            from google.cloud.tpu_v2 import TpuClient
            from google.cloud.tpu_v2.services.tpu.transports import TpuRestTransport
        except ImportError:
            raise StudyError(MISSING) from None
        host = os.environ.get(EMULATOR)
        if host:
            from google.auth.credentials import AnonymousCredentials

            transport = TpuRestTransport(host=host, url_scheme="http", credentials=AnonymousCredentials())
            return TpuClient(transport=transport)
        with one_line("TPU API"):
            return TpuClient(transport="rest")

    def create_node(self, place: Place, name: str, node: "Node") -> Any:
        """Ask for a machine; the operation that makes it."""
        with one_line(f"making {name} in {place.zone}"):
            return self.client.create_node(parent=place.parent, node_id=name, node=node, timeout=PATIENCE, retry=None)

    def create_queued_resource(self, place: Place, name: str, queued: "QueuedResource") -> Any:
        """Ask for a place in the queue; the operation that makes it."""
        with one_line(f"queueing {name} in {place.zone}"):
            return self.client.create_queued_resource(
                parent=place.parent,
                queued_resource_id=name,
                queued_resource=queued,
                timeout=PATIENCE,
                retry=None,
            )

    def is_done(self, operation: Any, what: str) -> bool:
        """Whether an operation has ended; raises if it ended in an error."""
        with one_line(what):
            if not operation.done():
                return False
            error = operation.exception(timeout=PATIENCE)
        if error is not None:
            raise RefusedError(str(told)) if isinstance(told := refusal(what, error), UnreachableError) else told
        return True

    def node(self, path: str) -> "Node | None":
        """The machine, or None if there is none."""
        return self._get(lambda: self.client.get_node(name=path, timeout=PATIENCE), path)

    def queued_resource(self, path: str) -> "QueuedResource | None":
        """The queued request, or None if there is none."""
        return self._get(lambda: self.client.get_queued_resource(name=path, timeout=PATIENCE), path)

    def state(self, path: str) -> str | None:
        """The state of a machine or a queued request; None if there is none."""
        if "/queuedResources/" in path:
            request = self.queued_resource(path)
            return None if request is None else str(request.state.state.name)
        node = self.node(path)
        return None if node is None else str(node.state.name)

    def _get(self, call: Callable[[], Any], path: str) -> Any:
        from google.api_core.exceptions import NotFound

        with one_line(path.rpartition("/")[2]):
            try:
                return call()
            except NotFound:
                return None

    def delete(self, path: str) -> None:
        """Ask for a machine's or a queued request's deletion; one that is not there is fine."""
        from google.api_core.exceptions import NotFound

        with one_line(f"deleting {path.rpartition('/')[2]}"):
            try:
                if "/queuedResources/" in path:
                    request = {"name": path, "force": True}  # with the machines that it brought
                    self.client.delete_queued_resource(request=request, timeout=PATIENCE, retry=None)
                else:
                    self.client.delete_node(name=path, timeout=PATIENCE, retry=None)
            except NotFound:
                return

    def alive(self, place: Place) -> list[Alive]:
        """Every machine and queued request of a place, whoever made it."""
        with one_line(f"listing the TPU VMs of {place.zone}"):
            nodes = list(self.client.list_nodes(parent=place.parent, timeout=PATIENCE))
            queued = list(self.client.list_queued_resources(parent=place.parent, timeout=PATIENCE))
        return [_of_node(place, node) for node in nodes] + [_of_queued(place, request) for request in queued]

    def host_keys(self, path: str) -> list[str]:
        """The machine's ssh host keys as it told the API at its start, e.g. `ssh-ed25519 AAAA`; empty if it did not."""
        with one_line(path.rpartition("/")[2]):
            answer = self.client.get_guest_attributes(
                request={"name": path, "query_path": "hostkeys/"}, timeout=PATIENCE
            )
        entries = [entry for told in answer.guest_attributes for entry in told.query_value.items]
        return [f"{entry.key} {entry.value}" for entry in entries if entry.namespace == "hostkeys"]


def _of_node(place: Place, node: Any) -> Alive:
    request = node.queued_resource.rpartition("/")[2] or None
    name = node.name.rpartition("/")[2]
    labels, made = dict(node.labels), node.create_time
    return Alive(name, place, False, node.state.name, node.accelerator_type, labels, made, request)


def _of_queued(place: Place, queued: Any) -> Alive:
    specs = list(queued.tpu.node_spec)
    labels = dict(specs[0].node.labels) if specs else {}
    accelerator_type = specs[0].node.accelerator_type if specs else ""
    name = queued.name.rpartition("/")[2]
    return Alive(name, place, True, queued.state.state.name, accelerator_type, labels, queued.create_time)


def project_of(configured: str | None) -> str:
    """The project to bill: the config's, GOOGLE_CLOUD_PROJECT, or the one that the credentials name."""
    if configured:
        return configured
    if named := os.environ.get("GOOGLE_CLOUD_PROJECT"):
        return named
    if not os.environ.get(EMULATOR):
        try:
            import google.auth
        except ImportError:
            raise StudyError(MISSING) from None
        with one_line("TPU API"):
            _, project = google.auth.default()
        if project:
            return project
    raise StudyError(
        "tpu_vm.project is empty and the login names none: set it to the project that pays (docs/cloud.md)"
    )
