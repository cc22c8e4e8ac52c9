"""Timing keeps what it discards, starts counting where the step times settled, and stops in bounded time."""

import io
import json
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from types import SimpleNamespace

import pytest

from whichdevice.base.events import Emitter
from whichdevice.measure import timing
from whichdevice.measure.timing import Budget, SteadyState, find_steady_state, time_steps, window_seconds


class Clock:
    """A clock that only steps move: each takes the next of some times, the last for ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def steps(self, times: Iterator[float]) -> Callable[[int], Callable[[], None]]:
        def prepare(steps: int) -> Callable[[], None]:
            self.now += 0.01  # drawing batches, outside the clock

            def run() -> None:
                self.now += sum(next(times) for _ in range(steps))

            return run

        return prepare


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def wobbly(time: float) -> Iterator[float]:
    """Step times that vary by 2 % without a trend."""
    while True:
        yield from (time, time * 1.02, time * 0.99, time * 1.01, time * 0.98)


def found(clock: Clock, times: Iterator[float], budget: Budget, **more) -> SteadyState:
    return find_steady_state(clock.steps(times), budget, **more)


def seconds(windows) -> float:
    return sum(took for _, took in windows)


def steps(windows) -> int:
    return sum(count for count, _ in windows)


def test_both_the_budget_and_the_least_number_of_steps_are_met(clock):
    state = found(clock, wobbly(0.6), Budget(1.0, 4))
    assert steps(state.warm_up) == 2 and steps(state.windows) == 4
    assert state.trend.direction is None
    assert state.end == "least warm-up; too few windows to test for a trend"


def test_one_step_that_takes_longer_than_the_budget_is_warm_up_enough(clock):
    state = found(clock, wobbly(30.0), Budget(1.0, 1))
    assert steps(state.warm_up) == 1 and steps(state.windows) == 1


def test_slow_first_windows_are_discarded_and_a_whole_budget_remains(clock):
    slow = chain(repeat(0.02, 25), wobbly(0.01))  # half a second, a quarter beyond the least warm-up
    state = found(clock, slow, Budget(1.0, 4))
    assert seconds(state.warm_up) >= 0.5 and state.end.startswith("MSER; no trend")
    assert seconds(state.windows) >= 1.0
    assert seconds(state.windows) / steps(state.windows) == pytest.approx(0.01, rel=0.02)


def test_the_first_epoch_belongs_to_the_warm_up_where_it_fits_the_budget(clock):
    assert steps(found(clock, wobbly(0.01), Budget(1.0, 4, epoch_steps=70)).warm_up) >= 70
    assert seconds(found(clock, wobbly(0.01), Budget(1.0, 4, epoch_steps=7000)).warm_up) < 0.4


def test_a_run_that_never_settles_ends_after_half_as_long_again_and_says_so(clock):
    def rising() -> Iterator[float]:
        time = 0.01
        while True:
            yield (time := time * 1.002)

    state = found(clock, rising(), Budget(1.0, 4))
    assert state.trend.direction == "rising" and state.trend.drift > 0.01
    assert "time is up: still rising" in state.end
    assert 1.8 <= seconds(state.warm_up) + seconds(state.windows) < 2.4
    assert seconds(state.windows) >= 1.0


def test_where_too_little_is_left_beyond_the_cut_the_last_whole_budget_counts_and_is_said_to(clock):
    late = chain(repeat(0.01, 80), wobbly(0.1))  # slower after the first look: too few steps until time is up
    state = found(clock, late, Budget(0.5, 100))
    assert state.end.startswith("time is up: the last whole budget; no trend")
    assert steps(state.windows) >= 100


@pytest.mark.parametrize(("budget", "window"), [(1, 0.1), (10, 0.5), (600, 1.0)])
def test_a_window_is_a_twentieth_of_the_budget_within_bounds(budget, window):
    assert window_seconds(budget) == window


def test_a_run_that_is_cut_short_leaves_its_first_step(clock: Clock) -> None:
    stream = io.StringIO()

    def cut() -> Iterator[float]:
        yield from (5.0, 4.0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_steps(clock.steps(cut()), SimpleNamespace(seconds=9.0, min_steps=1), 8.0, Emitter(stream))
    parts = [message["value"] for message in map(json.loads, stream.getvalue().splitlines()) if "value" in message]
    assert parts[-1] == {"warm_up": [[1, 4.0]]} and {"first_step": 5.0} in parts
