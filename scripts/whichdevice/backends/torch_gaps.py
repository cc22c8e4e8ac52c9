"""How long the host kept PyTorch's operations waiting: time between operations of an eager run on a CPU."""

import time
from collections.abc import Callable
from typing import Any

import torch


def gaps(run: Callable[[], object]) -> float:
    """Seconds of the run in which no operation ran, at least.

    The profiler slows the run; what it adds (against a run without it) is taken off the gaps, although part of it
    falls into the operations: hence "at least".
    """
    began = time.perf_counter()
    run()
    alone = time.perf_counter() - began
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        began = time.perf_counter()
        run()
        watched = time.perf_counter() - began
    return max(0.0, watched - covered(profile.events()) - (watched - alone))


def covered(events: Any) -> float:
    """Seconds covered by at least one of the profiler's events, whatever their nesting and thread."""
    total = end = 0.0
    for start, stop in sorted((event.time_range.start, event.time_range.end) for event in events):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total / 1e6
