"""Timing: windows of blocked steps, a warm-up that is kept but not counted, and a steady state that is found.

Windows run until the least warm-up and the time budget are spent. Then `trend` says where the step times settled; where
too little is left, or what is left still has a trend, more windows follow, at most as long again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from whichdevice.backends.base import WINDOW_SECONDS
from whichdevice.measuring.trend import Trend, Window, settled_from, trend_of

WINDOWS = 20  # of a long time budget: as many values as the test for a trend takes
LONGEST_WINDOW = 1.0  # a fixed cost is a few thousandths of it; the numbers of all examples of a window lie in memory
WARM_UP_SHARE = 0.25  # of the time budget
MIN_WARM_UP_STEPS = 2
MOST = 2.0  # times the first look, for a run that does not settle

PrepareSteps = Callable[[int], Callable[[], object]]  # draws the batches of so many steps; its result runs them


@dataclass(frozen=True)
class Budget:
    """How long a run is timed: seconds and least steps of steady state, and steps left of the first epoch."""

    seconds: float
    min_steps: int
    epoch_steps: int = 0


@dataclass(frozen=True)
class SteadyState:
    """All windows, split where the warm-up ended."""

    warm_up: list[Window]
    windows: list[Window]
    trend: Trend
    end: str  # which test ended the warm-up, and what it said


def timed(prepare: PrepareSteps, steps: int) -> float:
    """Seconds that the prepared steps take; what runs them must wait for the device."""
    run = prepare(steps)
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def find_steady_state(
    prepare: PrepareSteps,
    budget: Budget,
    on_warm: Callable[[list[Window]], None] = lambda windows: None,
    on_window: Callable[[float, float], None] = lambda step_time, seconds_left: None,
    window: float = WINDOW_SECONDS,
) -> SteadyState:
    """Time windows until a steady state of the whole budget is found, or twice the time is spent.

    A window lasts what `window_seconds` says. `on_warm(windows)` is called after the least warm-up,
    `on_window(step time, seconds left)` between windows.
    """
    series = _Series(prepare, window_seconds(budget.seconds, window), partial(_tell, on_window, budget))
    while not _warmed(series.windows, budget):
        series.extend()
    least = len(series.windows)
    on_warm(list(series.windows))
    while not _enough(series.windows[least:], budget):
        series.extend()
    limit = MOST * series.seconds
    while True:
        start = settled_from(series.windows, least)
        where = "MSER" if start > least else "least warm-up"
        trend = trend_of(series.windows[start:])
        enough = _enough(series.windows[start:], budget)
        if enough and not trend.goes_on:
            break
        if series.seconds >= limit:
            if not enough:
                start, where = _latest(series.windows, budget), "time is up: the last whole budget"
            trend = trend_of(series.windows[start:])
            break
        goal = series.seconds + WARM_UP_SHARE * budget.seconds
        while series.seconds < min(goal, limit):
            series.extend()
    return SteadyState(series.windows[:start], series.windows[start:], trend, _told(trend, where))


def window_seconds(budget: float, least: float = WINDOW_SECONDS) -> float:
    """A twentieth of the time budget between `least` and a second: each window's start and end cost a fixed time."""
    return max(least, min(budget / WINDOWS, LONGEST_WINDOW))


def window_steps(step_time: float, window: float = WINDOW_SECONDS) -> int:
    """How many steps fill one window of so many seconds."""
    return max(1, round(window / max(step_time, 1e-7)))


@dataclass
class _Series:
    """The windows so far; each has as many steps as the last one's step time lets fit."""

    prepare: PrepareSteps
    window: float
    tell: Callable[[Sequence[Window]], None]
    windows: list[Window] = field(default_factory=list)
    seconds: float = 0.0

    def extend(self) -> None:
        steps = 1
        if self.windows:
            steps = window_steps(self.windows[-1][1] / self.windows[-1][0], self.window)
        self.windows.append((steps, timed(self.prepare, steps)))
        self.seconds += self.windows[-1][1]
        self.tell(self.windows)


def _warmed(windows: Sequence[Window], budget: Budget) -> bool:
    """Whether the least warm-up is over: a quarter of the budget, two steps, and the first epoch where it fits."""
    steps, seconds = _totals(windows)
    if steps < MIN_WARM_UP_STEPS or seconds < WARM_UP_SHARE * budget.seconds:
        return False
    step_time = windows[-1][1] / windows[-1][0]
    return steps >= budget.epoch_steps or seconds + (budget.epoch_steps - steps) * step_time > budget.seconds


def _enough(windows: Sequence[Window], budget: Budget) -> bool:
    steps, seconds = _totals(windows)
    return seconds >= budget.seconds and steps >= budget.min_steps


def _latest(windows: Sequence[Window], budget: Budget) -> int:
    """The latest start that leaves a whole budget."""
    return next(start for start in range(len(windows) - 1, -1, -1) if _enough(windows[start:], budget))


def _totals(windows: Sequence[Window]) -> tuple[int, float]:
    return sum(steps for steps, _ in windows), sum(took for _, took in windows)


def _tell(on_window: Callable[[float, float], None], budget: Budget, windows: Sequence[Window]) -> None:
    steps, seconds = _totals(windows)
    left = (1 + WARM_UP_SHARE) * budget.seconds - seconds
    on_window(seconds / steps, max(0.0, left, (MIN_WARM_UP_STEPS + budget.min_steps - steps) * seconds / steps))


def _told(trend: Trend, where: str) -> str:
    if trend.p is None:
        return f"{where}; too few windows to test for a trend"
    said = f"Mann-Kendall p = {trend.p:.2g}, drift {trend.drift:+.1%}"
    return f"{where}; time is up: still {trend.direction} ({said})" if trend.goes_on else f"{where}; no trend ({said})"
