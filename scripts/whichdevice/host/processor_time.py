"""What the processors did between two moments: this process and its children, others, the hypervisor."""

import contextlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from whichdevice.host.affinity import throttled_seconds

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
