"""Time any run: cold first step, warm-up that is kept but not counted, and a steady state that is found.

Windows of blocked steps run until the least warm-up and the time budget are spent. Then it is decided where the step
times settled; where too little is left, or what is left still has a trend, more windows follow, at most half as long
again.

The end of the warm-up is MSER's (White, "An effective truncation heuristic for bias reduction in simulation output",
Simulation 69, 1997), on batches as in MSER-5. What is left is tested with Mann and Kendall's rank test ("Nonparametric
tests against trend", Econometrica 13, 1945), with the exact distribution; its size is Theil and Sen's slope.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from typing import Literal

import numpy as np

from whichdevice.base.events import Emitter
from whichdevice.measure.record import Request, Steady

Window = tuple[int, float]  # steps, seconds

MAX_BATCHES = 20  # windows beyond are averaged in batches, so that neighbours hang together less
MIN_VALUES = 5  # four values in order have p = 0.08: no test can tell
SIGNIFICANCE = 0.05
BOUND = 0.01  # of the step time: a smaller cut or drift changes no verdict


@dataclass(frozen=True)
class Trend:
    """The result of the rank test on a series; without direction and p it had too few values."""

    direction: Literal["none", "rising", "falling"] | None = None
    p: float | None = None
    drift: float | None = None  # change over the series as a share of its median

    @property
    def goes_on(self) -> bool:
        """Whether there is a trend."""
        return self.direction in ("rising", "falling")


def trend_of(windows: Sequence[Window]) -> Trend:
    """Mann-Kendall on batch means of the step time; a trend is significant and drifts by more than `BOUND`."""
    values = _step_times(_batches(windows))
    if len(values) < MIN_VALUES:
        return Trend()
    p, slope = trend_test(values)
    drift = slope * (len(values) - 1) / float(np.median(values))
    if p >= SIGNIFICANCE or abs(drift) <= BOUND:
        return Trend("none", p, drift)
    return Trend("rising" if drift > 0 else "falling", p, drift)


def trend_test(values: np.ndarray) -> tuple[float, float]:
    """Mann and Kendall's two-sided p of a series, and Theil and Sen's slope; SciPy's takes a second to import.

    The distribution is exact where no two values are equal, else normal.
    """
    n = len(values)
    first, last = np.triu_indices(n, 1)
    signs = np.sign(values[last] - values[first])
    slope = float(np.median((values[last] - values[first]) / (last - first)))
    _, equal = np.unique(values, return_counts=True)
    if np.max(equal) > 1:
        ties = float((equal * (equal - 1) * (2 * equal + 5)).sum())
        variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
        return math.erfc(abs(float(signs.sum())) / math.sqrt(2 * variance)) if variance else 1.0, slope
    ways = np.ones(1)  # in which so many values are ordered with each number of inversions
    for size in range(2, n + 1):
        ways = np.convolve(ways, np.ones(size))
    inversions = int((signs < 0).sum())
    rarer = min(inversions, len(ways) - 1 - inversions)
    return min(1.0, 2 * float(ways[: rarer + 1].sum() / ways.sum())), slope


def settled_from(windows: Sequence[Window], least: int) -> int:
    """The first window that counts, at least `least`: where the standard error of the mean of the rest is smallest.

    Looks at the first half of the windows beyond `least`, as MSER does. A cut that would change the mean of the rest
    by less than `BOUND` is not made.
    """
    batches = _batches(windows[least:])
    values = _step_times(batches)
    half = len(values) // 2
    if half < 1 or len(values) < MIN_VALUES:
        return least
    errors = [values[cut:].var() / (len(values) - cut) for cut in range(half + 1)]
    cut = int(np.argmin(errors))
    if cut == 0 or abs(values.mean() / values[cut:].mean() - 1) <= BOUND:
        return least
    return least + sum(len(batch) for batch in batches[:cut])


def _batches(windows: Sequence[Window]) -> list[Sequence[Window]]:
    """Return at most `MAX_BATCHES` runs of neighbouring windows, as even as can be."""
    count = min(MAX_BATCHES, len(windows))
    ends = [place * len(windows) // count for place in range(count + 1)] if count else [0]
    return [windows[start:end] for start, end in pairwise(ends)]


def _step_times(batches: Sequence[Sequence[Window]]) -> np.ndarray:
    return np.array([sum(took for _, took in batch) / sum(steps for steps, _ in batch) for batch in batches])


WINDOWS = 20  # of a long time budget: as many values as the test for a trend takes
SHORTEST_WINDOW = 0.1
LONGEST_WINDOW = 1.0  # a fixed cost is a few thousandths of it; the numbers of all examples of a window lie in memory
WARM_UP_SHARE = 0.25  # of the time budget
MIN_WARM_UP_STEPS = 2
MAX_BUDGETS = 1.5  # times the first look, for a run that does not settle

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
) -> SteadyState:
    """Time windows until a steady state of the whole budget is found, or half as much again is spent.

    A window lasts what `window_seconds` says. `on_warm(windows)` is called after the least warm-up,
    `on_window(step time, seconds left)` between windows.
    """
    series = _Series(prepare, window_seconds(budget.seconds), partial(_report_window, on_window, budget))
    while not _warmed(series.windows, budget):
        series.extend()
    least = len(series.windows)
    on_warm(list(series.windows))
    while not _enough(series.windows[least:], budget):
        series.extend()
    limit = MAX_BUDGETS * series.seconds
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
    return SteadyState(series.windows[:start], series.windows[start:], trend, _trend_words(trend, where))


def window_seconds(budget: float) -> float:
    """A twentieth of the time budget between a tenth of a second and a second: a window's ends cost a fixed time."""
    return max(SHORTEST_WINDOW, min(budget / WINDOWS, LONGEST_WINDOW))


def warm_up_steps(step_time: float, budget: float) -> int:
    """How many steps are cut at least: one where it takes longer than the whole time budget."""
    return 1 if step_time > budget else MIN_WARM_UP_STEPS


def window_steps(step_time: float, window: float) -> int:
    """How many steps fill one window of so many seconds."""
    return max(1, round(window / max(step_time, 1e-7)))


@dataclass
class _Series:
    """The windows so far; each has as many steps as the last one's step time lets fit."""

    prepare: PrepareSteps
    window: float
    report: Callable[[Sequence[Window]], None]
    windows: list[Window] = field(default_factory=list)
    seconds: float = 0.0

    def extend(self) -> None:
        steps = 1
        if self.windows:
            steps = window_steps(self.windows[-1][1] / self.windows[-1][0], self.window)
        self.windows.append((steps, timed(self.prepare, steps)))
        self.seconds += self.windows[-1][1]
        self.report(self.windows)


def _warmed(windows: Sequence[Window], budget: Budget) -> bool:
    """Whether the least warm-up is over: a quarter of the budget, two steps, and the first epoch where it fits.

    One step is enough where it takes longer than the whole budget.
    """
    if not windows:
        return False
    steps, seconds = _totals(windows)
    step_time = windows[-1][1] / windows[-1][0]
    if steps < warm_up_steps(step_time, budget.seconds) or seconds < WARM_UP_SHARE * budget.seconds:
        return False
    return steps >= budget.epoch_steps or seconds + (budget.epoch_steps - steps) * step_time > budget.seconds


def _enough(windows: Sequence[Window], budget: Budget) -> bool:
    steps, seconds = _totals(windows)
    return seconds >= budget.seconds and steps >= budget.min_steps


def _latest(windows: Sequence[Window], budget: Budget) -> int:
    """The latest start that leaves a whole budget."""
    return next(start for start in range(len(windows) - 1, -1, -1) if _enough(windows[start:], budget))


def _totals(windows: Sequence[Window]) -> tuple[int, float]:
    return sum(steps for steps, _ in windows), sum(took for _, took in windows)


def _report_window(on_window: Callable[[float, float], None], budget: Budget, windows: Sequence[Window]) -> None:
    steps, seconds = _totals(windows)
    left = (1 + WARM_UP_SHARE) * budget.seconds - seconds
    warm = warm_up_steps(seconds / steps, budget.seconds)
    on_window(seconds / steps, max(0.0, left, (warm + budget.min_steps - steps) * seconds / steps))


def _trend_words(trend: Trend, where: str) -> str:
    if trend.p is None:
        return f"{where}; too few windows to test for a trend"
    test = f"Mann-Kendall p = {trend.p:.2g}, drift {trend.drift:+.1%}"
    return f"{where}; time is up: still {trend.direction} ({test})" if trend.goes_on else f"{where}; no trend ({test})"


def time_steps(
    prepare: PrepareSteps, request: Request, units_per_step: float, emit: Emitter, steps_per_epoch: int = 0
) -> Steady:
    """Cold and steady times of any repeated step; sends both and returns the steady state."""
    emit.progress("compiling")
    emit.part("cold", {"first_step": timed(prepare, 1)})

    numbers = count(1)

    def report(step_time: float, seconds_left: float) -> None:
        emit.progress("timing", step_time=step_time, seconds_left=seconds_left)
        number = next(numbers)
        emit.energy_part(f"window {number}")
        if number == 2:  # of one step: all that is known of a long one if the run is cut short now
            emit.part("cold", {"warm_up": [(1, step_time)]})

    def warmed(windows: list[Window]) -> None:
        emit.part("cold", {"warm_up": windows})  # known even if the run is cut short

    budget = Budget(request.seconds, request.min_steps, max(0, steps_per_epoch - 1))
    emit.timed_windows()
    emit.energy_part(f"window {next(numbers)}")
    state = find_steady_state(prepare, budget, warmed, report)
    emit.timed_windows()
    _emit_energy(len(state.warm_up), len(state.windows), emit)
    epochs = (1 + _totals(state.warm_up)[0]) / steps_per_epoch if steps_per_epoch else None
    emit.part("cold", {"warm_up": state.warm_up, "warm_up_epochs": epochs, "warm_up_end": state.end})
    steady = steady_of(state, units_per_step)
    emit.part("steady", steady)
    return steady


def _emit_energy(warm_up: int, steady: int, emit: Emitter) -> None:
    """Which windows were steady state is known only after all of them; one more was begun."""
    emit.energy_part(None)
    names = [f"window {number}" for number in range(1, warm_up + steady + 2)]
    emit.energy_sum("steady", names[warm_up:-1])
    emit.energy_sum(None, [*names[:warm_up], names[-1]])


def steady_of(state: SteadyState, units_per_step: float) -> Steady:
    """The record's part of a steady state."""
    steps, seconds = _totals(state.windows)
    return Steady(
        windows=state.windows,
        steps=steps,
        seconds=seconds,
        step_time=seconds / steps,
        throughput=units_per_step * steps / seconds,
        trend=state.trend.direction,
        drift=state.trend.drift,
    )
