"""Timing keeps what it discards and stops when both the time and the number of steps are met."""

import time
from functools import partial

import pytest

from whichdevice.measuring.steady_state import steady_windows, timed, warm_up, window_steps


def test_drawing_batches_is_outside_the_clock():
    def prepare(steps: int):
        time.sleep(0.05)  # drawing them
        return lambda: None

    assert timed(prepare, 1) < 0.01


def sleeper(step_time: float):
    return lambda steps: partial(time.sleep, steps * step_time)


def nothing(*_):
    return None


def test_windows_last_about_a_tenth_of_a_second():
    assert window_steps(0.001) == 100
    assert window_steps(0.5) == 1
    assert window_steps(0.0) >= 1  # a clock that stood still divides nothing by zero


def test_both_the_budget_and_the_least_number_of_steps_are_met():
    windows = steady_windows(sleeper(0.02), 0.02, seconds=0.3, min_steps=3, on_window=nothing)
    assert sum(seconds for _, seconds in windows) >= 0.3
    windows = steady_windows(sleeper(0.02), 0.02, seconds=0.001, min_steps=7, on_window=nothing)
    assert sum(steps for steps, _ in windows) >= 7


def test_windows_grow_to_their_length_even_from_a_wrong_first_guess():
    windows = steady_windows(sleeper(0.001), 0.05, seconds=0.5, min_steps=1, on_window=nothing)
    assert all(0.05 < seconds < 0.3 for _, seconds in windows[1:])


def test_each_window_holds_its_steps_and_its_seconds():
    for steps, seconds in steady_windows(sleeper(0.01), 0.01, seconds=0.3, min_steps=1, on_window=nothing):
        assert seconds / steps == pytest.approx(0.01, rel=0.5)


def test_the_warm_up_takes_its_share_and_is_kept():
    windows = warm_up(sleeper(0.005), seconds=0.4)
    assert 0.1 <= sum(seconds for _, seconds in windows) < 0.4
    assert sum(steps for steps, _ in windows) >= 2


def test_seconds_left_never_falls_below_zero():
    left = []
    steady_windows(sleeper(0.01), 0.01, 0.2, 1, lambda step_time, seconds: left.append(seconds))
    assert min(left) >= 0
