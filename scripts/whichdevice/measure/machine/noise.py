"""Detect whether something else slowed a run.

A fixed kernel runs before and after it; meanwhile the processors' time is counted, and a thread asks a GPU once a
second why it throttles. What a GPU does one second after the start, before the measured process has taken it, is
other people's work.
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from whichdevice.base.cpu import PROCESSORS, throttled_seconds, usable_cores
from whichdevice.measure.machine.calibration import KERNEL, Calibration, calibrate
from whichdevice.measure.machine.gpu import NvmlError, handle, open_nvml, visible_gpus
from whichdevice.measure.record import Noise

INTERVAL = 1.0  # seconds
# What slows a GPU down beyond its ordinary power limit, as NVML names its bits.
GPU_THROTTLING = {
    "nvmlClocksEventReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksEventReasonSwThermalSlowdown": "heat (driver)",
    "nvmlClocksEventReasonHwThermalSlowdown": "heat (hardware)",
    "nvmlClocksEventReasonHwPowerBrakeSlowdown": "power brake",
}
STAT = Path("/proc/stat")  # where psutil reads the times
SLOWDOWN_BOUND = 0.10  # calibration after the run against before it, either way
STEAL_BOUND = 0.02  # of all processor time, taken by the hypervisor over the run, or withheld by a quota
STEAL_BOUND_TIMED = 0.05  # the same over the timed windows, which may be a second of a few ticks
OTHERS_BOUND = 0.10  # of this process's usable cores, kept busy by other processes
OTHERS_BOUND_CORES = 0.25  # of one core: of many that work in step, one that is held up holds up all
Calibrate = Callable[[Callable[[Calibration], bool] | None], Calibration]


class GpuReading(NamedTuple):
    """A driver's answers; None where it gives none."""

    throttling: int | None  # bits of any GPU of the run
    busy: float | None  # share of the driver's last sample in which a kernel ran, on the busiest of them


ReadGpu = Callable[[], GpuReading]


@dataclass
class DeviceSigns:
    """Signs that the devices were slowed; what the machine does not say is no sign."""

    cpu_throttles: int = 0  # for heat, as the kernel counts them
    gpu_busy_before: float = 0.0  # share of time, on the busiest of the run's GPUs, before its process took it
    gpu_throttling: list[str] = field(default_factory=list)  # of any of its GPUs beyond the ordinary power limit


class DeviceWatch:
    """Watches the devices of a run between `start()` and `stop()`. It never fails."""

    def __init__(
        self, kind: str, replicas: int = 1, interval: float = INTERVAL, open_gpu: Callable[[], ReadGpu] | None = None
    ) -> None:
        self._kind, self._interval = kind, interval
        self._open_gpu = open_gpu or partial(gpu_reader, replicas)
        self._ended = threading.Event()
        self._throttles = 0
        self.readings: list[GpuReading] = []

    def start(self) -> None:
        """Begin; a driver that hangs holds up its own thread alone."""
        self._throttles = processor_throttles()
        if self._kind == "gpu":
            threading.Thread(target=self._watch, name="throttling", daemon=True).start()

    def stop(self) -> DeviceSigns:
        """Return what was seen."""
        self._ended.set()
        bits = reduce(or_, (reading.throttling or 0 for reading in self.readings), 0)
        return DeviceSigns(
            cpu_throttles=processor_throttles() - self._throttles,
            gpu_busy_before=(self.readings[0].busy or 0.0) if self.readings else 0.0,
            gpu_throttling=[reason for bit, reason in throttling_bits() if bit & bits],
        )

    def _watch(self) -> None:
        with contextlib.suppress(Exception):  # without a library or a device, the GPU is not watched
            read_gpu = self._open_gpu()
            while not self._ended.wait(self._interval):
                self.readings.append(read_gpu())


def processor_throttles(folder: Path = PROCESSORS) -> int:
    """How often the processors throttled for heat since boot; 0 where nothing counts it (virtual machines)."""
    count = 0
    for file in folder.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"):
        with contextlib.suppress(OSError, ValueError):
            count += int(file.read_text(encoding="ascii"))
    return count


def throttling_bits() -> list[tuple[int, str]]:
    """NVML's bits of `GPU_THROTTLING`; none without the library."""
    try:
        import pynvml
    except ImportError:
        return []
    return [(int(getattr(pynvml, name, 0)), text) for name, text in GPU_THROTTLING.items()]


def gpu_reader(replicas: int = 1) -> ReadGpu:
    """Return what reads the first visible GPUs, as many as the run uses. Raises NvmlError."""
    nvml: Any = open_nvml()
    gpus = [handle(nvml, gpu) for gpu in visible_gpus(nvml)[:replicas]]
    if not gpus:
        raise NvmlError("no GPU is visible")

    def read() -> GpuReading:
        bits = busy = None
        with contextlib.suppress(Exception):  # either may be unknown: to older drivers, of parts of a GPU (MIG)
            bits = reduce(or_, (int(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)) for gpu in gpus))
        with contextlib.suppress(Exception):
            busy = max(nvml.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in gpus) / 100
        return GpuReading(bits, busy)

    return read


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds of processor time since boot of the processors that this process may use; `own`: it and its children."""

    wall: float
    total: float
    busy: float
    own: float
    steal: float | None  # None where the system does not say (macOS)
    throttled: float | None = None  # by a quota: a container's limit of processor time; None where none is counted


def processor_time() -> ProcessorTime:
    """A snapshot; children that still run are looked up, which takes milliseconds."""
    processors = _own_processors()
    busy = sum(getattr(core, name, 0.0) for core in processors for name in ("user", "nice", "system", "irq", "softirq"))
    steal = sum(core.steal for core in processors) if hasattr(processors[0], "steal") else None
    total = busy + sum(core.idle + getattr(core, "iowait", 0.0) for core in processors) + (steal or 0.0)
    own_seconds = sum(os.times()[:4]) + _running_children()
    return ProcessorTime(time.monotonic(), total, busy, own_seconds, steal, throttled_seconds())


def _own_processors() -> list[Any]:
    """Times of the processors that this process may run on; of all where the system does not say which."""
    times = psutil.cpu_times(percpu=True)
    if not hasattr(os, "sched_getaffinity"):
        return times
    usable, numbers = os.sched_getaffinity(0), _listed_processors()
    if len(numbers) != len(times) or not usable.issubset(numbers):
        return times
    return [core for number, core in zip(numbers, times, strict=True) if number in usable]


def _listed_processors() -> list[int]:
    """Numbers of the processors whose times the system lists, in its order; offline ones are left out."""
    with contextlib.suppress(OSError):
        return [int(line[1]) for line in re.finditer(r"^cpu(\d+) ", STAT.read_text(encoding="ascii"), re.MULTILINE)]
    return []


def _running_children() -> float:
    seconds = 0.0
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # ended meanwhile
            seconds += sum(child.cpu_times()[:4])
    return seconds


def steal_share(before: ProcessorTime, after: ProcessorTime) -> float | None:
    """Share of processor time between two snapshots that the hypervisor gave to others."""
    if before.steal is None or after.steal is None or after.total <= before.total:
        return None
    return (after.steal - before.steal) / (after.total - before.total)


def throttled_share(before: ProcessorTime, after: ProcessorTime, cores: int) -> float | None:
    """Share of the time of our `cores` between two snapshots in which a quota held this process's groups up."""
    if before.throttled is None or after.throttled is None or after.wall <= before.wall:
        return None
    return (after.throttled - before.throttled) / ((after.wall - before.wall) * cores)


def others_share(before: ProcessorTime, after: ProcessorTime, cores: int) -> float:
    """Processor time that other processes must have taken from our `cores`, as a share of them.

    Where we use fewer than we may (a limit of processor time), others may fill the rest without touching us.
    """
    wall = after.wall - before.wall
    if wall <= 0:
        return 0.0
    others = ((after.busy - before.busy) - (after.own - before.own)) / wall
    elsewhere = (after.total - before.total) / wall - cores
    return max(0.0, others - max(0.0, elsewhere)) / cores


@dataclass(frozen=True)
class Finding:
    """Something that was watched, and its bound."""

    value: float
    bound: float
    text: str  # with {value} and {bound}

    @property
    def reason(self) -> str | None:
        """Return the words for a sign beyond its bound; None within it."""
        return self.text.format(value=self.value, bound=self.bound) if self.value > self.bound else None


class NoiseWatch:
    """Watches over one run: `start()` before it, `mark()` around its timed windows, `stop()` after its process ended.

    The load average is recorded and not judged: over a minute, the study's own previous run fills it.
    """

    def __init__(
        self,
        cores: int | None = None,
        kind: str = "cpu",
        calibrate: Calibrate = lambda answered: calibrate(answered) if answered else calibrate(),
        snapshot: Callable[[], ProcessorTime] = processor_time,
        devices: DeviceWatch | None = None,
        replicas: int = 1,
    ) -> None:
        self._calibrate, self._snapshot = calibrate, snapshot
        self._cores = cores or usable_cores()
        self._kind = kind
        self._devices = devices or DeviceWatch(kind, replicas)
        self._load: float | None = None
        self._calibration: Calibration | None = None
        self._before: ProcessorTime | None = None
        self._timed: list[ProcessorTime] = []  # when the timed windows began and ended

    def start(self) -> None:
        """Note the load, calibrate, take the first snapshot."""
        self._load = os.getloadavg()[0]
        self._calibration = self._calibrate(None)
        self._before = self._snapshot()
        self._devices.start()

    def mark(self) -> None:
        """The timed windows begin; called again, they are over."""
        self._timed.append(self._snapshot())

    def stop(self) -> Noise:
        """Take the last snapshot, calibrate again and judge; RuntimeError without `start()`."""
        if self._before is None or self._calibration is None:
            raise RuntimeError("NoiseWatch.stop() before start()")
        before, calibration = self._before, self._calibration
        after, signs = self._snapshot(), self._devices.stop()
        again = self._calibrate(lambda calibrated: calibrated.change(calibration) <= 1 + SLOWDOWN_BOUND)
        timed = (self._timed[0], self._timed[1]) if len(self._timed) == 2 else None
        findings = [
            *_speed_findings(again.change(calibration)),
            *self._findings(before, after, STEAL_BOUND, "of the run"),
            *(self._findings(*timed, STEAL_BOUND_TIMED, "of the timed windows") if timed else []),
            *_device_findings(signs),
        ]
        reasons = [reason for reason in (finding.reason for finding in findings) if reason]
        return Noise(
            calibration_before=calibration.fastest,
            calibration_after=again.fastest,
            calibration_kernel=KERNEL,
            calibration_change=again.change(calibration),
            load_before=self._load,
            others=others_share(before, after, self._cores),
            others_timed=others_share(*timed, self._cores) if timed else None,
            steal=steal_share(before, after),
            throttled=throttled_share(before, after, self._cores),
            severity=max(finding.value / finding.bound for finding in findings),
            disturbed=bool(reasons),
            reasons=reasons,
        )

    def _findings(self, start: ProcessorTime, end: ProcessorTime, steal_bound: float, span: str) -> list[Finding]:
        steal, others = steal_share(start, end), others_share(start, end, self._cores)
        throttled = throttled_share(start, end, self._cores)
        bound = OTHERS_BOUND
        if self._kind == "cpu":
            bound = min(bound, OTHERS_BOUND_CORES / self._cores)
        company = f"other processes took {{value:.0%}} of the processors {span} (bound {{bound:.1%}})"
        stolen = f"the hypervisor took {{value:.1%}} of processor time {span} (bound {{bound:.0%}})"
        held_up = f"a limit of processor time held its processes up for {{value:.1%}} {span} (bound {{bound:.0%}})"
        return [
            Finding(others, bound, company),
            Finding(steal or 0.0, steal_bound, stolen),
            Finding(throttled or 0.0, steal_bound, held_up),
        ]


def _speed_findings(change: float) -> list[Finding]:
    text = "calibration ran {{value:.0%}} slower {} the run (bound {{bound:.0%}})"
    return [
        Finding(change - 1, SLOWDOWN_BOUND, text.format("after")),
        Finding(1 / change - 1, SLOWDOWN_BOUND, text.format("before")),
    ]


def _device_findings(signs: DeviceSigns) -> list[Finding]:
    busy = "the GPU was {value:.0%} busy before the run (bound {bound:.0%})"
    return [
        Finding(signs.cpu_throttles, 0.5, "the processor throttled for heat ({value} times)"),
        Finding(signs.gpu_busy_before, OTHERS_BOUND, busy),
        Finding(len(signs.gpu_throttling), 0.5, f"the GPU throttled: {', '.join(signs.gpu_throttling)}"),
    ]
