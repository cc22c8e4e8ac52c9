"""Timing: the first step apart, a warm-up that is kept but not counted, then windows of blocked steps."""

import time
from collections.abc import Callable

WINDOW_SECONDS = 0.1  # long enough that reading clock and result costs under a thousandth; a loop may want more
WARM_UP_SHARE = 0.25  # of the time budget
MIN_WARM_UP_STEPS = 2

Window = tuple[int, float]
PrepareSteps = Callable[[int], Callable[[], object]]  # draws the batches of so many steps; its result runs them


def timed(prepare: PrepareSteps, steps: int) -> float:
    """Seconds that the prepared steps take; what runs them must wait for the device."""
    run = prepare(steps)
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def warm_up(prepare: PrepareSteps, seconds: float, window: float = WINDOW_SECONDS) -> list[Window]:
    """Run until a quarter of the budget is spent; the windows that are discarded."""
    windows: list[Window] = []
    deadline = time.perf_counter() + seconds * WARM_UP_SHARE
    steps = 1
    while sum(count for count, _ in windows) < MIN_WARM_UP_STEPS or time.perf_counter() < deadline:
        windows.append((steps, timed(prepare, steps)))
        steps = window_steps(windows[-1][1] / steps, window)
    return windows


def steady_windows(
    prepare: PrepareSteps,
    step_time: float,
    seconds: float,
    min_steps: int,
    on_window: Callable[[float, float], None],
    window: float = WINDOW_SECONDS,
) -> list[Window]:
    """Windows until both the time budget and the least number of steps are met.

    `step_time` is the last one seen; `on_window(step time, seconds left)` is called between windows.
    """
    windows: list[Window] = []
    spent, done = 0.0, 0
    while spent < seconds or done < min_steps:
        steps = window_steps(step_time, window)
        windows.append((steps, timed(prepare, steps)))
        step_time = windows[-1][1] / steps
        spent, done = spent + windows[-1][1], done + steps
        on_window(spent / done, max(0.0, seconds - spent, (min_steps - done) * spent / done))
    return windows


def window_steps(step_time: float, window: float = WINDOW_SECONDS) -> int:
    """How many steps fill one window of so many seconds."""
    return max(1, round(window / max(step_time, 1e-7)))
