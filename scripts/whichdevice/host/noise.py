"""Whether something else slowed a run: a fixed kernel before and after it, and what the processors did meanwhile."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from whichdevice.host.affinity import usable_cores
from whichdevice.records.schema import Noise

SLOWDOWN_BOUND = 0.10  # calibration after the run against before it, either way
STEAL_BOUND = 0.02  # of all processor time, taken by the hypervisor
OTHERS_BOUND = 0.10  # of this process's usable cores, kept busy by other processes
KERNEL_SIZE = 512  # a float32 product of 0.27 GFLOP: milliseconds on any core
KERNEL_SECONDS = 0.2
KERNEL_MIN_PRODUCTS = 5


def calibration() -> float:
    """Seconds of one fixed float32 matrix product: the fastest of those that fit into 0.2 s.

    The fastest one does not see short interruptions; it sees a changed clock, heat and lasting company.
    """
    import numpy as np  # here, so that the light parts of this package stay light

    left = np.random.default_rng(0).random((KERNEL_SIZE, KERNEL_SIZE), dtype=np.float32)
    right, product = left.T.copy(), np.empty_like(left)
    np.matmul(left, right, out=product)  # starts BLAS's threads
    best, count, end = float("inf"), 0, time.perf_counter() + KERNEL_SECONDS
    while count < KERNEL_MIN_PRODUCTS or time.perf_counter() < end:
        start = time.perf_counter()
        np.matmul(left, right, out=product)
        best, count = min(best, time.perf_counter() - start), count + 1
    return best


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds of processor time since boot, all processors together; `own` is this process and its ended children."""

    wall: float
    total: float
    busy: float
    own: float
    steal: float | None  # None where the system does not say (macOS)


def processor_time() -> ProcessorTime:
    """A snapshot."""
    host = psutil.cpu_times()
    busy = sum(getattr(host, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
    steal = getattr(host, "steal", None)
    total = busy + host.idle + getattr(host, "iowait", 0.0) + (steal or 0.0)
    return ProcessorTime(time.monotonic(), total, busy, sum(os.times()[:4]), steal)


def steal_share(before: ProcessorTime, after: ProcessorTime) -> float | None:
    """Share of processor time between two snapshots that the hypervisor gave to others."""
    if before.steal is None or after.steal is None or after.total <= before.total:
        return None
    return (after.steal - before.steal) / (after.total - before.total)


def others_share(before: ProcessorTime, after: ProcessorTime, cores: int) -> float:
    """Processor time that other processes must have taken from our `cores`, as a share of them.

    On a host with more processors than ours, others may fill the rest without touching us. Children count as
    our own once they were waited for.
    """
    wall = after.wall - before.wall
    if wall <= 0:
        return 0.0
    others = ((after.busy - before.busy) - (after.own - before.own)) / wall
    elsewhere = (after.total - before.total) / wall - cores
    return max(0.0, others - max(0.0, elsewhere)) / cores


class NoiseWatch:
    """Watches over one run: `start()` right before it, `stop()` once its process was waited for.

    The load average is recorded and not judged: over a minute, the study's own previous run fills it.
    """

    def __init__(
        self,
        cores: int | None = None,
        calibrate: Callable[[], float] = calibration,
        snapshot: Callable[[], ProcessorTime] = processor_time,
    ) -> None:
        self._calibrate, self._snapshot = calibrate, snapshot
        self._cores = cores or usable_cores()
        self._load: float | None = None
        self._calibration: float | None = None
        self._before: ProcessorTime | None = None

    def start(self) -> None:
        """Note the load, calibrate, take the first snapshot."""
        self._load = os.getloadavg()[0]
        self._calibration = self._calibrate()
        self._before = self._snapshot()

    def stop(self) -> Noise:
        """Take the second snapshot, calibrate again and judge; RuntimeError without `start()`."""
        if self._before is None or self._calibration is None:
            raise RuntimeError("NoiseWatch.stop() before start()")
        after = self._snapshot()
        calibration_after = self._calibrate()
        steal = steal_share(self._before, after)
        others = others_share(self._before, after, self._cores)
        reasons = _reasons(calibration_after / self._calibration, steal, others)
        return Noise(
            calibration_before=self._calibration,
            calibration_after=calibration_after,
            load_before=self._load,
            others=others,
            steal=steal,
            disturbed=bool(reasons),
            reasons=reasons,
        )


def _reasons(ratio: float, steal: float | None, others: float) -> list[str]:
    reasons = []
    if ratio > 1 + SLOWDOWN_BOUND:
        reasons.append(f"calibration ran {ratio - 1:.0%} slower after the run (bound {SLOWDOWN_BOUND:.0%})")
    if ratio < 1 / (1 + SLOWDOWN_BOUND):
        reasons.append(f"calibration ran {1 / ratio - 1:.0%} slower before the run (bound {SLOWDOWN_BOUND:.0%})")
    if steal is not None and steal > STEAL_BOUND:
        reasons.append(f"the hypervisor took {steal:.1%} of processor time (bound {STEAL_BOUND:.0%})")
    if others > OTHERS_BOUND:
        reasons.append(f"other processes took {others:.0%} of the processors (bound {OTHERS_BOUND:.0%})")
    return reasons
