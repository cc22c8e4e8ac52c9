"""What the processors did between two moments: this process and its children, others, the hypervisor."""

import contextlib
import os
import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds of processor time since boot, all processors together; `own` is this process and its children."""

    wall: float
    total: float
    busy: float
    own: float
    steal: float | None  # None where the system does not say (macOS)


def processor_time() -> ProcessorTime:
    """A snapshot; children that still run are looked up, which takes milliseconds."""
    host = psutil.cpu_times()
    busy = sum(getattr(host, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
    steal = getattr(host, "steal", None)
    total = busy + host.idle + getattr(host, "iowait", 0.0) + (steal or 0.0)
    return ProcessorTime(time.monotonic(), total, busy, sum(os.times()[:4]) + _running_children(), steal)


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


def others_share(before: ProcessorTime, after: ProcessorTime, cores: int) -> float:
    """Processor time that other processes must have taken from our `cores`, as a share of them.

    On a host with more processors than ours, others may fill the rest without touching us.
    """
    wall = after.wall - before.wall
    if wall <= 0:
        return 0.0
    others = ((after.busy - before.busy) - (after.own - before.own)) / wall
    elsewhere = (after.total - before.total) / wall - cores
    return max(0.0, others - max(0.0, elsewhere)) / cores
