"""A small seeded part of `benchmarks/simulated_studies.py`: intervals and verdicts are right as often as they say."""

import pytest
from benchmarks.simulated_studies import BUSY, INSIDE, QUIET, coverage, false_alarms, power, ratio_coverage

TRIALS = 600
THREE_ERRORS = 3 * (0.95 * 0.05 / TRIALS) ** 0.5


@pytest.mark.parametrize("n", [3, 10])
@pytest.mark.parametrize("noise", [BUSY, INSIDE], ids=["between", "inside"])
def test_95_of_100_intervals_hold_the_truth(noise, n):
    assert coverage(noise, n, TRIALS) == pytest.approx(0.95, abs=THREE_ERRORS)
    assert ratio_coverage(noise, n, TRIALS) == pytest.approx(0.95, abs=THREE_ERRORS)


@pytest.mark.parametrize("n", [3, 10])
def test_where_nothing_differs_at_most_one_study_in_20_claims_that_something_does(n):
    assert false_alarms(BUSY, n, 200) < 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


def test_ten_repeats_on_a_quiet_machine_find_a_slowdown_of_a_tenth_among_20_comparisons():
    found, alone = power(QUIET, 10, 100)
    assert found > 0.9 and alone > 0.85
