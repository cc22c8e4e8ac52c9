"""The cost of a window is what is left of a call without its steps."""

import pytest
from benchmarks.window_cost import STEPS, line_through


def test_a_fixed_cost_of_each_call_is_told_from_its_steps():
    call, step = line_through({steps: 0.002 + 0.012 * steps for steps in STEPS})
    assert call == pytest.approx(0.002) and step == pytest.approx(0.012)


def test_one_slow_number_of_steps_counts_by_its_share_and_not_by_its_length():
    times = {steps: 0.002 + 0.012 * steps for steps in STEPS}
    call, step = line_through({**times, 64: 1.05 * times[64]})
    assert step == pytest.approx(0.012, rel=0.04) and call == pytest.approx(0.002, rel=0.35)
