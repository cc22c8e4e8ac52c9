"""One rented TPU VM: asked for, waited for, reached and deleted."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from whichdevice.cloud.api_errors import NoCapacityError
from whichdevice.cloud.keys import Keys
from whichdevice.cloud.order import Order
from whichdevice.cloud.ssh import ConnectionLostError, Ssh
from whichdevice.cloud.stopping import Stopping
from whichdevice.cloud.tpu_api import Place, TpuApi
from whichdevice.errors import StudyError
from whichdevice.google_api_errors import UnreachableError

SETTLE_SECONDS = 30.0  # for which a machine may still appear after a request without an answer
DELETE_SECONDS = 1200.0  # for which deleting is tried
MARGIN_SECONDS = 900.0  # before the end of a machine's life, for its making and for bringing records back
GONE_STATES = {"PREEMPTED", "TERMINATED", "STOPPED", "STOPPING", "DELETING", "HIDING", "HIDDEN"}
ENDED_REQUESTS = {"FAILED", "SUSPENDING", "SUSPENDED", "DELETING"}
Say = Callable[[str], None]


@dataclass
class Machine:
    """A machine that was asked for in one place; it may be there or not."""

    api: TpuApi
    order: Order
    place: Place
    say: Say
    stopping: Stopping
    operation: Any = None
    unanswered: bool = False  # the request may or may not have been carried out
    deadline: float = 0.0  # on the monotonic clock: records must be home before the machine ends itself

    @property
    def path(self) -> str:
        """The API's name of the machine."""
        return f"{self.place.parent}/nodes/{self.order.name}"

    def ask(self, public_key: str) -> None:
        """Send the request; from here on something may cost money."""
        order, api = self.order, self.api
        try:
            if order.vm.queued:
                request = order.queued_resource(self.place, public_key)
                self.operation = api.create_queued_resource(self.place, order.name, request)
            else:
                self.operation = api.create_node(self.place, order.name, order.node(self.place, public_key))
        except UnreachableError:
            self.unanswered = True
            raise

    def wait(self) -> Any:
        """The machine, ready; raises NoCapacityError or StudyError."""
        order = self.order
        what = f"making {order.name} in {self.place.zone}"
        if order.vm.queued:
            self._until(self._granted, order.vm.queue_minutes, f"{what}: still queued", "tpu_vm.queue_minutes")
        elif not self.stopping.until(lambda: self.api.is_done(self.operation, what), order.vm.ready_minutes * 60):
            raise StudyError(f"{what}: not made after {order.vm.ready_minutes:g} minutes (tpu_vm.ready_minutes)")
        self._until(self._ready, order.vm.ready_minutes, f"{what}: not ready", "tpu_vm.ready_minutes")
        seconds = order.vm.max_hours * 3600
        self.deadline = time.monotonic() + seconds - min(MARGIN_SECONDS, seconds / 2)
        return self.api.node(self.path)

    def _until(self, done: Callable[[], bool], minutes: float, what: str, key: str) -> None:
        if not self.stopping.until(done, minutes * 60):
            raise StudyError(f"{what} after {minutes:g} minutes ({key})")

    def _granted(self) -> bool:
        request = self.api.queued_resource(self.order.resource(self.place))
        if request is None:
            return False
        state = request.state.state.name
        if state in ENDED_REQUESTS:
            told = " ".join(str(request.state.failed_data.error.message).split())
            raise NoCapacityError(
                f"queueing {self.order.name} in {self.place.zone}: {state}" + (f": {told}" if told else "")
            )
        return state == "ACTIVE"

    def _ready(self) -> bool:
        node = self.api.node(self.path)
        if node is None:
            return False
        if node.state.name in GONE_STATES:
            raise NoCapacityError(f"{self.order.name} in {self.place.zone} was {node.state.name} before it was ready")
        return node.state.name == "READY"

    def why_gone(self) -> str | None:
        """None while the API says that the machine runs, otherwise what became of it."""
        with suppress(UnreachableError):
            node = self.api.node(self.path)
            if node is None:
                return f"{self.order.name} is gone: deleted by somebody, or at the end of its life"
            if node.state.name in GONE_STATES:
                spot = "; spot machines are" if self.order.vm.spot else ""
                return f"{self.order.name} was taken away ({node.state.name}){spot}"
        return None

    def connect(self, node: Any, keys: Keys) -> Ssh:
        """ssh to the machine once it answers; raises StudyError when it does not in time."""
        vm = self.order.vm
        address = address_of(node, vm.external_ip)
        try:
            host_keys = self.api.host_keys(self.path)
        except StudyError:
            host_keys = []  # not every image tells them
        keys.trust(address, vm.ssh_port, host_keys)
        ssh = Ssh(address, vm.ssh_user, vm.ssh_port, keys, bool(host_keys), self.stopping)
        if not host_keys:
            self.say("The machine told the API no host key: the first one that ssh meets is trusted.")
        failed: list[StudyError] = []

        def answers() -> bool:
            try:
                ssh.run("true", f"ssh to {self.order.name}")
            except ConnectionLostError as error:
                failed[:] = [error]
                if (reason := self.why_gone()) is not None:
                    raise StudyError(reason) from error
                return False
            return True

        if not self.stopping.until(answers, vm.ready_minutes * 60):
            raise StudyError(
                f"{failed[0]}; does a firewall rule allow tcp:{vm.ssh_port} to this machine (docs/cloud.md)?"
            )
        return ssh

    def delete(self) -> None:
        """Delete the machine and its queued request, and see that they are gone; raises StudyError if they are not."""
        paths = [self.path, *([self.order.resource(self.place)] if self.order.vm.queued else [])]
        started = time.monotonic()
        told: set[str] = set()

        def gone() -> bool:
            try:
                states = {path: state for path in reversed(paths) if (state := self.api.state(path)) is not None}
                for path in [path for path, state in states.items() if state != "DELETING"][:1]:
                    self.api.delete(path)  # the request first: it takes its machine along
            except StudyError as error:
                if str(error) not in told:
                    self.say(f"{error} (trying again)")
                told.add(str(error))
                return False
            settled = not self.unanswered or time.monotonic() - started > SETTLE_SECONDS
            return not states and settled and self._is_made_or_refused()

        if not self.stopping.until(gone, DELETE_SECONDS):
            raise StudyError(f"{self.order.name} COULD NOT BE DELETED and may cost money: {by_hand(self.path)}")

    def _is_made_or_refused(self) -> bool:
        """Whether nothing can come of the request any more."""
        if self.operation is None or self.order.vm.queued:
            return True
        try:
            return self.api.is_done(self.operation, "making it")
        except UnreachableError:
            return False
        except StudyError:
            return True


def by_hand(path: str) -> str:
    """How to delete something without this program."""
    _, project, _, zone, collection, name = path.split("/")
    group = "queued-resources" if collection == "queuedResources" else "tpu-vm"
    return (
        "python -m whichdevice tpu down, or "
        f"gcloud compute tpus {group} delete {name} --project={project} --zone={zone}"
    )


def address_of(node: Any, external: bool) -> str:
    """The address that ssh takes; raises StudyError on a slice of several machines or one without an address."""
    endpoints: Sequence[Any] = list(node.network_endpoints)
    if len(endpoints) != 1:
        raise StudyError(f"tpu_vm.accelerator_type: {node.accelerator_type} came as {len(endpoints)} machines, not one")
    address = endpoints[0].access_config.external_ip if external else endpoints[0].ip_address
    if not address:
        raise StudyError("the machine has no external address; set tpu_vm.external_ip: false to take the internal one")
    return str(address)
