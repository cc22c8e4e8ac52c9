"""A machine for as long as a piece of work takes: made before it, deleted after it, whatever happened between."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whichdevice.cloud.api_errors import NoCapacityError
from whichdevice.cloud.keys import Keys
from whichdevice.cloud.machine import Machine, Say
from whichdevice.cloud.order import Order
from whichdevice.cloud.ssh import Ssh
from whichdevice.cloud.stopping import Stopping, stopping
from whichdevice.cloud.tpu_api import Place, TpuApi
from whichdevice.errors import StudyError


@contextmanager
def rented(api: TpuApi, order: Order, say: Say, keep: bool = False) -> Iterator[tuple[Machine, Ssh]]:
    """A machine that is there and answers, deleted at the end; with `keep` only if something failed."""
    with stopping(say) as state:
        renting = Renting(api, order, say, state)
        done = False
        try:
            node = renting.make()
            say(f"{order.name} is ready; it deletes itself after {order.vm.max_hours:g} h at the latest.")
            yield renting.current, renting.current.connect(node, renting.keys)
            done = True
        finally:
            state.cleaning = True
            if not (keep and done):
                _clean(renting)


def _clean(renting: "Renting") -> None:
    """Delete the machine; an error in it is told together with the one that ended the work, if there was one."""
    first = sys.exception()
    try:
        renting.clean()
    except StudyError as error:
        raise StudyError(f"{error}; before that: {first}" if first is not None else str(error)) from error


class Renting:
    """Asks for a machine in one zone after the other and remembers where it asked last."""

    def __init__(self, api: TpuApi, order: Order, say: Say, state: Stopping) -> None:
        self.api, self.order, self.say, self.state = api, order, say, state
        self.keys = Keys(order.name, order.vm.ssh_key)
        self.asked: Machine | None = None

    @property
    def current(self) -> Machine:
        """The machine that was asked for."""
        assert self.asked is not None
        return self.asked

    def make(self) -> Any:
        """The machine as the API describes it, ready, from the first zone that has one; raises StudyError."""
        public_key = self.keys.make()
        *others, last = self.order.places()
        for place in others:
            try:
                return self._make_in(place, public_key)
            except NoCapacityError as error:
                self.say(str(error))
                self.current.delete()
        return self._make_in(last, public_key)

    def _make_in(self, place: Place, public_key: str) -> Any:
        self.state.check()
        self.asked = Machine(self.api, self.order, place, self.say, self.state)
        self.say(f"Making {self.order.name} ({self.order.kind.name}) in {place.zone} ...")
        self.asked.ask(public_key)
        return self.asked.wait()

    def clean(self) -> None:
        """Delete what was asked for, and the key to it; raises StudyError if something is left that may cost money."""
        if self.asked is not None:
            self.say(f"Deleting {self.order.name} ...")
            self.asked.delete()
            self.say(f"{self.order.name} is deleted.")
        self.keys.forget()
