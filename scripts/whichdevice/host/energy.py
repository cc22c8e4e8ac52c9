"""Energy of a run from a meter that this host really has; without one, the reason. Never an estimate.

A counter measures its whole device: on a shared one, other people's work too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from whichdevice.host.nvml import NvmlError, handle, open_nvml, visible_gpus
from whichdevice.records.schema import Energy

POWERCAP = Path("/sys/class/powercap")


class MeterError(Exception):
    """A counter could not be read; the text says why."""


@dataclass(frozen=True)
class Counters:
    """Running counters in joules; `ranges` says where each starts again from 0 (infinity: never)."""

    name: str
    read: Callable[[], list[float]]
    ranges: list[float]


class EnergyMeter:
    """Joules between `start()` and `stop()` of the first `replicas` devices of a kind. It never fails.

    Call `sample()` now and then in long runs: a processor's counter wraps after minutes to hours (262 kJ are
    22 minutes at 200 W), and only one wrap between two samples can be told.
    """

    def __init__(self, kind: str, replicas: int = 1, find: Callable[[str, int], Counters] | None = None) -> None:
        self._counters: Counters | None = None
        self._reason: str | None = None
        self._last: list[float] | None = None
        self._joules = 0.0
        try:
            self._counters = (find or counters_of)(kind, replicas)
        except MeterError as error:
            self._reason = f"no meter: {error}"

    def start(self) -> None:
        """Begin at zero."""
        self._joules, self._last = 0.0, None
        self.sample()

    def sample(self) -> None:
        """Add what the counters gained since the last sample; a failing counter ends the measurement."""
        if self._counters is None:
            return
        try:
            values = self._counters.read()
        except MeterError as error:
            self._reason = f"no meter: {self._counters.name} failed: {error}"
            self._counters = None
            return
        for now, then, full in zip(values, self._last or values, self._counters.ranges, strict=True):
            self._joules += now - then if now >= then else now - then + full
        self._last = values

    def stop(self) -> Energy:
        """The joules since `start()` and the meter's name, or the reason why there are none."""
        self.sample()
        if self._counters is None:
            return Energy(reason=self._reason)
        if not math.isfinite(self._joules):  # a counter that never wraps went back
            return Energy(reason=f"no meter: {self._counters.name} was reset during the run")
        return Energy(joules=self._joules, meter=self._counters.name)


def counters_of(kind: str, replicas: int = 1) -> Counters:
    """The counters of a kind on this host, of its first `replicas` where each device has its own. Raises MeterError."""
    if kind == "cpu":
        return rapl_counters()
    if kind == "gpu":
        return nvml_counters(replicas)
    raise MeterError(f"a {kind.upper()} has no energy counter that a program can read")


def rapl_counters(powercap: Path = POWERCAP) -> Counters:
    """The processor packages' RAPL counters (Intel, and AMD from Linux 5.8). Raises MeterError.

    Packages only: their cores and, on most models, memory controllers lie within. DRAM is apart and not counted.
    """
    zones = sorted(powercap.glob("intel-rapl:*"))
    packages = [zone for zone in zones if _read(zone / "name").startswith("package")]
    if not packages:
        raise MeterError("no RAPL processor package under powercap (usual in virtual machines)")

    def read() -> list[float]:
        return [_microjoules(zone / "energy_uj") for zone in packages]

    read()
    ranges = [_microjoules(zone / "max_energy_range_uj") for zone in packages]
    return Counters(f"RAPL of {_many(len(packages), 'processor package')}", read, ranges)


def nvml_counters(replicas: int = 1) -> Counters:
    """The own counters of the first visible GPUs (Volta and later). Raises MeterError."""
    try:
        nvml = open_nvml()
    except NvmlError as error:
        raise MeterError(f"NVML: {error}") from error
    try:
        handles = [handle(nvml, gpu) for gpu in visible_gpus(nvml)[:replicas]]
    except nvml.NVMLError as error:
        raise MeterError(f"NVML: {error}") from error
    if not handles:
        raise MeterError("no GPU is visible")

    def read() -> list[float]:
        try:
            return [nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000 for gpu in handles]  # from mJ
        except nvml.NVMLError as error:
            raise MeterError(f"NVML: {error}") from error

    read()
    return Counters(f"NVML of {_many(len(handles), 'GPU')}", read, [math.inf] * len(handles))


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count > 1)}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except PermissionError as error:
        raise MeterError(f"RAPL's {path.name} is readable by root only") from error
    except OSError as error:
        raise MeterError(f"RAPL's {path.name}: {error.strerror or error}") from error


def _microjoules(path: Path) -> float:
    """A file of microjoules, in joules."""
    try:
        return int(_read(path)) / 1e6
    except ValueError as error:
        raise MeterError(f"RAPL's {path.name} holds no number") from error
