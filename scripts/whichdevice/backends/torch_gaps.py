"""How long the host kept PyTorch's operations waiting: time between operations of an eager run on a CPU."""

import time
from collections.abc import Callable

import torch


def gap_share(run: Callable[[], object]) -> float:
    """Share of the run in which no operation ran, at most: the profiler's own work falls mostly into the gaps."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        began = time.perf_counter()
        run()
        seconds = time.perf_counter() - began
    spans = [(event.time_range.start / 1e6, event.time_range.end / 1e6) for event in profile.events() or ()]
    return max(0.0, 1 - covered(spans) / seconds)


def covered(spans: list[tuple[float, float]]) -> float:
    """Length covered by at least one of the spans (start, end), whatever their nesting."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
