"""Measure the energy of a run and of its parts from counters that this host really has; without one, give the reason.

A counter measures its whole device: on a shared one, other people's work too, and what the device draws when idle.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichdevice.base.files import text_of
from whichdevice.base.numbers import counted
from whichdevice.measure.machine.gpu import NvmlError, answer_within, handle, open_nvml, visible_gpus
from whichdevice.measure.record import Energy, MeteredPart

NVML_UPDATE = 0.1  # s; drivers renew the counter every 20 to 100 ms
METER_PATIENCE = 3.0  # s; below the time that a process's last messages are waited for
POWERCAP = Path("/sys/class/powercap")
UPDATE = 0.001  # s
DEVICE = "device"  # the counter that counts for the run; others are recorded too


class MeterError(Exception):
    """A counter could not be read; the text says why."""


@dataclass(frozen=True)
class Counters:
    """Running counters in joules; `ranges` says where each starts again from 0 (infinity: never)."""

    name: str
    read: Callable[[], list[float]]
    ranges: list[float]
    update: float  # s between two new values of a counter


def nvml_counters(replicas: int = 1, patience: float = METER_PATIENCE) -> Counters:
    """The own counters of the first visible GPUs (Volta and later), memory included. Raises MeterError."""
    try:
        nvml = open_nvml()
    except NvmlError as error:
        raise MeterError(f"NVML: {error}") from error

    def answer(ask: Callable[[], list[Any]]) -> list[Any]:
        try:
            return answer_within(patience, ask)
        except (nvml.NVMLError, NvmlError) as error:
            raise MeterError(f"NVML: {error}") from error

    handles = answer(lambda: [handle(nvml, gpu) for gpu in visible_gpus(nvml)[:replicas]])
    if not handles:
        raise MeterError("no GPU is visible")

    def read() -> list[float]:
        return answer(lambda: [nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000 for gpu in handles])  # from mJ

    read()
    return Counters(f"NVML of {counted(len(handles), 'GPU')}", read, [math.inf] * len(handles), NVML_UPDATE)


def no_tpu_counters() -> Counters:
    """Raises MeterError."""
    raise MeterError("a TPU has no energy counter that a program can read")


def package_counters(powercap: Path = POWERCAP) -> Counters:
    """All processor packages of the host; their memory is apart. Raises MeterError."""
    return _counters(powercap, "package", "")


def memory_counters(powercap: Path = POWERCAP) -> Counters:
    """The memory of all packages, where the processor counts it: servers by Intel. Raises MeterError."""
    return _counters(powercap, "dram", "the memory of ")


def _counters(powercap: Path, label: str, part: str) -> Counters:
    zones = [zone for zone in sorted(powercap.glob("intel-rapl:*")) if text_of(zone / "name").startswith(label)]
    if not zones:
        raise MeterError(_why_none(powercap, part))

    def read() -> list[float]:
        return [_joules(zone / "energy_uj") for zone in zones]

    read()
    ranges = [_joules(zone / "max_energy_range_uj") for zone in zones]
    return Counters(f"RAPL of {part}{counted(len(zones), 'processor package')}", read, ranges, UPDATE)


def _why_none(powercap: Path, part: str) -> str:
    """A container that hides powercap leaves links to folders that are not there."""
    links = list(powercap.glob("intel-rapl:*"))
    if links and not any((zone / "name").exists() for zone in links):
        return "RAPL is hidden from this container; mount /sys/devices/virtual/powercap into it to read it"
    usual = "" if links else " (usual in virtual machines)"
    return f"no RAPL counter of {part}a processor package{usual}"


def _joules(path: Path) -> float:
    """A file of microjoules, in joules."""
    try:
        return int(path.read_text(encoding="utf-8")) / 1e6
    except PermissionError as error:  # since CVE-2020-8694 (Linux 5.10 and fixed earlier ones)
        raise MeterError(f"RAPL's {path.name} is readable by root only; see docs/how-to/study.md") from error
    except OSError as error:
        raise MeterError(f"RAPL's {path.name}: {error.strerror or error}") from error
    except ValueError as error:
        raise MeterError(f"RAPL's {path.name} holds no number") from error


Finders = Mapping[str, Callable[[], Counters]]


def counters_of(kind: str, replicas: int = 1) -> Finders:
    """Return what looks for each counter that matters to a run on the first `replicas` devices of a kind."""
    if kind == "cpu":
        return {DEVICE: package_counters, "memory": memory_counters}
    device = no_tpu_counters if kind == "tpu" else lambda: nvml_counters(replicas)
    return {DEVICE: device, "host": package_counters, "memory": memory_counters}


class EnergyMeter:
    """Joules between `start()` and `stop()`, altogether and of named parts. It never fails; any thread may call it.

    Call `sample()` at least once a minute: a processor's counter wraps after minutes to hours (65 kJ, AMD's usual
    range, are 4 minutes at 270 W), and only one wrap between two samples is noticed.
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
        """Count what follows to this part, or to none; a part may be entered again."""
        with self._lock:
            for tally in self._tallies.values():
                tally.sample()
                tally.part = part

    def add_up(self, part: str | None, of: Iterable[str]) -> None:
        """Join earlier parts into one, or drop them; a part that was never entered adds 0."""
        names = list(of)
        with self._lock:
            for tally in self._tallies.values():
                tally.add_up(part, names)

    def take(self, message: Mapping[str, Any]) -> None:
        """Follow a message of the measured process: enter the next part, or join earlier ones."""
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
    """The gain of one set of counters, altogether and in each part."""

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
        metered = [self._parts.pop(name) for name in of if name in self._parts]
        if metered and part is not None:
            joules, seconds = sum(entered.joules for entered in metered), sum(entered.seconds for entered in metered)
            self._parts[part] = MeteredPart(joules=joules, seconds=seconds)

    def energy(self) -> Energy:
        if self._counters is None:
            return Energy(reason=self._reason)
        if not math.isfinite(self._joules):  # a counter that never wraps went back
            return Energy(reason=f"no meter: {self._counters.name} was reset during the run")
        return Energy(
            joules=self._joules, meter=self._counters.name, update=self._counters.update, parts=dict(self._parts)
        )
