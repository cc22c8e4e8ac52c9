"""A small seeded part of `benchmarks/simulated_studies.py`: intervals and verdicts are right as often as they say."""

import numpy as np
import pytest
from benchmarks.simulated_studies import BUSY, INSIDE, QUIET, coverage, false_alarms, power, ratio_coverage, step_times

TRIALS = 600
THREE_ERRORS = 3 * (0.95 * 0.05 / TRIALS) ** 0.5


@pytest.mark.parametrize("n", [3, 10])
@pytest.mark.parametrize("noise", [BUSY, INSIDE], ids=["between", "inside"])
def test_95_of_100_intervals_hold_the_truth(noise, n):
    assert coverage(noise, n, TRIALS) == pytest.approx(0.95, abs=THREE_ERRORS)
    assert ratio_coverage(noise, n, TRIALS) == pytest.approx(0.95, abs=THREE_ERRORS)


@pytest.mark.parametrize("unpaired", [False, True], ids=["paired", "Welch"])
@pytest.mark.parametrize("n", [3, 10])
def test_where_nothing_differs_at_most_one_study_in_20_claims_that_something_does(n, unpaired):
    assert false_alarms(BUSY, n, 200, unpaired) < 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


def test_ten_repeats_on_a_quiet_machine_find_a_slowdown_of_a_tenth_among_20_comparisons():
    found, alone = power(QUIET, 10, 100)
    assert found > 0.9 and alone > 0.85


def test_windows_are_correlated_and_processes_differ_as_said():
    noise = BUSY._replace(within=0.0)
    made = np.log(step_times(np.random.default_rng(2), noise, (4000,)))
    assert made.std() == pytest.approx(0.05, rel=0.05)
    inside = np.log(step_times(np.random.default_rng(2), INSIDE, (4000,)))
    r, n = INSIDE.correlation, INSIDE.windows
    longer = (1 + r) / (1 - r) - 2 * r * (1 - r**n) / (n * (1 - r) ** 2)  # of the mean of an autoregressive series
    assert inside.std() == pytest.approx(INSIDE.within * (longer / n) ** 0.5, rel=0.06)
