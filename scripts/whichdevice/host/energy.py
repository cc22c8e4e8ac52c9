"""Energy of a run and of its parts, from counters that this host really has; without one, the reason.

A counter measures its whole device: on a shared one, other people's work too, and what it draws when idle.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from whichdevice.host.energy_counters import Counters, MeterError, no_tpu_counters, nvml_counters
from whichdevice.host.rapl import memory_counters, package_counters
from whichdevice.records.conditions import Energy, MeteredPart

DEVICE = "device"  # the counter that a run counts with; others stand beside it
Finders = Mapping[str, Callable[[], Counters]]


def counters_of(kind: str, replicas: int = 1) -> Finders:
    """What looks for each counter that matters to a run on the first `replicas` devices of a kind."""
    if kind == "cpu":
        return {DEVICE: package_counters, "memory": memory_counters}
    device = no_tpu_counters if kind == "tpu" else lambda: nvml_counters(replicas)
    return {DEVICE: device, "host": package_counters, "memory": memory_counters}


class EnergyMeter:
    """Joules between `start()` and `stop()`, also those of named parts. It never fails; any thread may call it.

    Call `sample()` at least once a minute: a processor's counter wraps after minutes to hours (65 kJ, AMD's usual
    range, are 4 minutes at 270 W), and only one wrap between two samples can be told.
    """

    def __init__(self, kind: str, replicas: int = 1, find: Callable[[str, int], Finders] = counters_of) -> None:
        self._tallies = {name: _Tally(finder) for name, finder in find(kind, replicas).items()}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin at zero, in no part."""
        with self._lock:
            for tally in self._tallies.values():
                tally.start()

    def enter(self, part: str | None) -> None:
        """What follows belongs to this part, or to none; a part may be entered again."""
        with self._lock:
            for tally in self._tallies.values():
                tally.sample()
                tally.part = part

    def add_up(self, part: str | None, of: Iterable[str]) -> None:
        """Earlier parts become one, or none; those that were never entered add nothing."""
        names = list(of)
        with self._lock:
            for tally in self._tallies.values():
                tally.add_up(part, names)

    def take(self, message: Mapping[str, Any]) -> None:
        """What a measured process says of its parts: the next one, or earlier ones that add up."""
        if "of" in message:
            self.add_up(message["part"], message["of"])
        else:
            self.enter(message["part"])

    def sample(self) -> None:
        """Add what the counters gained since the last sample."""
        with self._lock:
            for tally in self._tallies.values():
                tally.sample()

    def stop(self) -> Energy:
        """The joules since `start()`, or the reason why there are none."""
        self.sample()
        energies = {name: tally.energy() for name, tally in self._tallies.items()}
        return energies.pop(DEVICE).model_copy(update={"beside": energies})


class _Tally:
    """What one set of counters gained, altogether and in each part."""

    def __init__(self, find: Callable[[], Counters]) -> None:
        self._counters: Counters | None = None
        self._reason: str | None = None
        self.part: str | None = None
        try:
            self._counters = find()
        except MeterError as error:
            self._reason = f"no meter: {error}"
        self._begin()

    def _begin(self) -> None:
        self._values: list[float] | None = None
        self._time = 0.0
        self._joules = 0.0
        self._parts: dict[str, MeteredPart] = {}
        self.part = None

    def start(self) -> None:
        self._begin()
        self.sample()

    def sample(self) -> None:
        """A failing counter ends the measurement."""
        if self._counters is None:
            return
        try:
            values, now = self._counters.read(), time.monotonic()
        except MeterError as error:
            self._reason = f"no meter: {self._counters.name} failed: {error}"
            self._counters = None
            return
        before = self._values or values
        gained = sum(
            new - old if new >= old else new - old + full
            for new, old, full in zip(values, before, self._counters.ranges, strict=True)
        )
        self._joules += gained
        if self.part is not None:
            part = self._parts.setdefault(self.part, MeteredPart(joules=0.0, seconds=0.0))
            part.joules += gained
            part.seconds += now - self._time
        self._values, self._time = values, now

    def add_up(self, part: str | None, of: list[str]) -> None:
        found = [self._parts.pop(name) for name in of if name in self._parts]
        if found and part is not None:
            joules, seconds = sum(each.joules for each in found), sum(each.seconds for each in found)
            self._parts[part] = MeteredPart(joules=joules, seconds=seconds)

    def energy(self) -> Energy:
        if self._counters is None:
            return Energy(reason=self._reason)
        if not math.isfinite(self._joules):  # a counter that never wraps went back
            return Energy(reason=f"no meter: {self._counters.name} was reset during the run")
        return Energy(
            joules=self._joules, meter=self._counters.name, update=self._counters.update, parts=dict(self._parts)
        )
