"""Detect whether something else slowed a run, by a fixed kernel before and after it and by the processors' time."""

import contextlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from whichdevice.machine.calibration import KERNEL, Calibration, calibrate
from whichdevice.machine.clocks import ClockWatch
from whichdevice.machine.limits import throttled_seconds, usable_cores
from whichdevice.records.schema import Clocks, Noise

STAT = Path("/proc/stat")  # where psutil reads the times


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
    busy = sum(getattr(each, name, 0.0) for each in processors for name in ("user", "nice", "system", "irq", "softirq"))
    steal = sum(each.steal for each in processors) if hasattr(processors[0], "steal") else None
    total = busy + sum(each.idle + getattr(each, "iowait", 0.0) for each in processors) + (steal or 0.0)
    own = sum(os.times()[:4]) + _running_children()
    return ProcessorTime(time.monotonic(), total, busy, own, steal, throttled_seconds())


def _own_processors() -> list[Any]:
    """Times of the processors that this process may run on; of all where the system does not say which."""
    times = psutil.cpu_times(percpu=True)
    if not hasattr(os, "sched_getaffinity"):
        return times
    own, numbers = os.sched_getaffinity(0), _listed_processors()
    if len(numbers) != len(times) or not own.issubset(numbers):
        return times
    return [each for number, each in zip(numbers, times, strict=True) if number in own]


def _listed_processors() -> list[int]:
    """Numbers of the processors whose times the system lists, in its order; offline ones are left out."""
    with contextlib.suppress(OSError):
        return [int(found[1]) for found in re.finditer(r"^cpu(\d+) ", STAT.read_text(encoding="ascii"), re.MULTILINE)]
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


SLOWDOWN_BOUND = 0.10  # calibration after the run against before it, either way
STEAL_BOUND = 0.02  # of all processor time, taken by the hypervisor over the run; held up by a quota alike
STEAL_BOUND_TIMED = 0.05  # the same over the timed windows, which may be a second of a few ticks
OTHERS_BOUND = 0.10  # of this process's usable cores, kept busy by other processes
OTHERS_BOUND_CORES = 0.25  # of one core: of many that work in step, one that is held up holds up all

Calibrate = Callable[[Callable[[Calibration], bool] | None], Calibration]


@dataclass(frozen=True)
class Finding:
    """Something that was watched, and its bound."""

    value: float
    bound: float
    text: str  # with {value} and {bound}

    @property
    def reason(self) -> str | None:
        """In words, where it is beyond its bound."""
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
        clocks: ClockWatch | None = None,
        replicas: int = 1,
    ) -> None:
        self._calibrate, self._snapshot = calibrate, snapshot
        self._cores = cores or usable_cores()
        self._kind = kind
        self._clocks = clocks or ClockWatch(kind, replicas)
        self._load: float | None = None
        self._calibration: Calibration | None = None
        self._before: ProcessorTime | None = None
        self._timed: list[ProcessorTime] = []  # when the timed windows began and ended

    def start(self) -> None:
        """Note the load, calibrate, take the first snapshot."""
        self._load = os.getloadavg()[0]
        self._calibration = self._calibrate(None)
        self._before = self._snapshot()
        self._clocks.start()

    def mark(self) -> None:
        """The timed windows begin; called again, they are over."""
        self._timed.append(self._snapshot())

    def stop(self) -> Noise:
        """Take the last snapshot, calibrate again and judge; RuntimeError without `start()`."""
        if self._before is None or self._calibration is None:
            raise RuntimeError("NoiseWatch.stop() before start()")
        before, calibration = self._before, self._calibration
        after, clocks = self._snapshot(), self._clocks.stop()
        again = self._calibrate(lambda found: found.change(calibration) <= 1 + SLOWDOWN_BOUND)
        timed = (self._timed[0], self._timed[1]) if len(self._timed) == 2 else None
        findings = [
            *_speed_findings(again.change(calibration), again.change_on_one_core(calibration)),
            *self._findings(before, after, STEAL_BOUND, "of the run"),
            *(self._findings(*timed, STEAL_BOUND_TIMED, "of the timed windows") if timed else []),
            *_device_findings(clocks),
        ]
        reasons = [reason for finding in findings if (reason := finding.reason)]
        return Noise(
            calibration_before=min(calibration.all_cores),
            calibration_after=min(again.all_cores),
            calibration_kernel=KERNEL,
            calibration_change=again.change(calibration),
            bursts_before=[calibration.all_cores, calibration.one_core],
            bursts_after=[again.all_cores, again.one_core],
            load_before=self._load,
            load_after=os.getloadavg()[0],
            others=others_share(before, after, self._cores),
            others_timed=others_share(*timed, self._cores) if timed else None,
            steal=steal_share(before, after),
            steal_timed=steal_share(*timed) if timed else None,
            throttled=throttled_share(before, after, self._cores),
            throttled_timed=throttled_share(*timed, self._cores) if timed else None,
            clocks=clocks,
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
        company = f"other processes took {{value:.0%}} of the processors {span} (bound {{bound:.2g}})"
        stolen = f"the hypervisor took {{value:.1%}} of processor time {span} (bound {{bound:.0%}})"
        held_up = f"a limit of processor time held its processes up for {{value:.1%}} {span} (bound {{bound:.0%}})"
        return [
            Finding(others, bound, company),
            *([] if steal is None else [Finding(steal, steal_bound, stolen)]),
            *([] if throttled is None else [Finding(throttled, steal_bound, held_up)]),
        ]


def _speed_findings(change: float, on_one_core: float) -> list[Finding]:
    both = {"after": (change - 1, on_one_core - 1), "before": (1 / change - 1, 1 / on_one_core - 1)}
    return [
        Finding(
            slower,
            SLOWDOWN_BOUND,
            f"calibration ran {{value:.0%}} slower {when} the run (bound {{bound:.0%}}; on one core {one_core:+.0%})",
        )
        for when, (slower, one_core) in both.items()
    ]


def _device_findings(clocks: Clocks) -> list[Finding]:
    reasons = clocks.gpu_throttling or []
    return [
        Finding(clocks.cpu_throttles, 0.5, "the processor throttled for heat ({value} times)"),
        Finding(
            clocks.gpu_busy_before or 0.0,
            OTHERS_BOUND,
            "the GPU was {value:.0%} busy before the run (bound {bound:.0%})",
        ),
        Finding(len(reasons), 0.5, f"the GPU throttled: {', '.join(reasons)}"),
    ]
