"""Intervals cover, the decision rule holds its error rates, and noise is split."""

import math

import numpy as np
import pandas as pd
import pytest
from beside import beside
from scipy import stats

from whichdevice.study.tables.decision_rule import (
    FASTER,
    SAME,
    UNDECIDED,
    decided,
    geometric,
    holm,
    noise_split,
    paired,
    within_process,
)


def test_a_hand_worked_mean_and_interval() -> None:
    found = geometric(pd.Series([1.0, 4.0]), pd.Series(["a", "a"])).loc["a"]
    half = 12.706204736432095 * math.sqrt(2) * math.log(2) / math.sqrt(2)  # t(.975, 1) s / sqrt(n)
    assert found["mean"] == pytest.approx(2)
    assert found["low"] == pytest.approx(2 * math.exp(-half))
    assert found["high"] == pytest.approx(2 * math.exp(half))
    assert found["n"] == 2


def test_what_cannot_be_logged_is_left_out() -> None:
    found = geometric(pd.Series([0.0, -1.0, 5.0]), pd.Series([1, 1, 1])).loc[1]
    assert (found["mean"], found["n"]) == (pytest.approx(5), 1)


def of(*values: list[float]) -> tuple[pd.Series, pd.Series]:
    """Ratios of several groups as logarithms, and the group of each."""
    logs = pd.Series(np.log(np.concatenate(values)))
    return logs, pd.Series(np.repeat(range(len(values)), [len(each) for each in values]))


def verdict(*ratios: float) -> str:
    """What is said of one comparison with these paired repeats."""
    return str(decided(paired(*of(list(ratios))))["verdict"][0])


def test_paired_repeats_are_scipys_one_sample_t_test() -> None:
    ratios = [1.02, 1.05, 1.01, 1.07]
    found = decided(paired(*of(ratios))).loc[0]
    test = stats.ttest_1samp(np.log(ratios), 0)
    assert found["p"] == pytest.approx(test.pvalue)
    assert [found["ratio_low"], found["ratio_high"]] == pytest.approx(np.exp(test.confidence_interval(0.95)))
    assert [found["ratio_low_90"], found["ratio_high_90"]] == pytest.approx(np.exp(test.confidence_interval(0.90)))
    assert found["ratio"] == pytest.approx(stats.gmean(ratios))


@pytest.mark.parametrize(("ratios", "expected"), beside(__file__))
def test_each_verdict(ratios: list[float], expected: str) -> None:
    assert verdict(*ratios) == expected


def test_holm_by_hand_within_each_family() -> None:
    p = pd.Series([0.01, 0.04, 0.03, 0.02, None])
    corrected, factor = holm(p, pd.Series(["a", "a", "a", "b", "a"]))
    assert corrected.tolist()[:4] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert factor.tolist()[:4] == [3, 2, 2, 1]  # the one of .04 waits until the one of .03 is rejected, at .05 / 2
    assert np.isnan(corrected[4])  # one repeat is no test and takes nothing from the others


def test_more_comparisons_take_more_to_decide() -> None:
    near = [1.05, 1.06, 1.08]
    assert verdict(*near) == FASTER
    beside = [[0.9, 1.0, 1.15]] * 9
    assert decided(paired(*of(near, *beside)))["verdict"][0] == UNDECIDED


def test_the_repeats_said_to_decide_do_so_in_four_of_five_simulated_studies() -> None:
    """The power of the number itself, with the ratio and spread taken for true: a difference, and a sameness."""
    random = np.random.default_rng(5)
    for mean, ways in [(0.10, {FASTER}), (0.005, {SAME})]:
        seen = mean + 0.12 * np.array([-1.0, 0.0, 1.0])
        found = decided(paired(pd.Series(seen), pd.Series([0] * 3))).loc[0]
        assert found["verdict"] == UNDECIDED
        n = int(found["n_to_decide"])
        studies = pd.Series(random.normal(mean, 0.12, 2000 * n))
        family = pd.Series(range(2000))  # each study by itself
        verdicts = decided(paired(studies, pd.Series(np.repeat(range(2000), n))), family)["verdict"]
        assert 0.77 < verdicts.isin(ways).mean() < 0.87


def test_what_is_decided_needs_no_more_repeats_and_one_repeat_cannot_tell_how_many() -> None:
    judged = decided(paired(*of([1.1, 1.11, 1.12], [1.05], [0.9, 1.2, 1.0])))
    assert judged["n_to_decide"].isna().tolist() == [True, True, False]
    assert judged.loc[2, "n_to_decide"] > 3


def cell(random: np.random.Generator, between: float, within: float, correlation: float, windows: int = 100) -> dict:
    """A process of a cell: its windows an autoregressive series around its own level."""
    noise = random.normal(0, within * np.sqrt(1 - correlation**2), windows)
    noise[0] = random.normal(0, within)
    for place in range(1, windows):
        noise[place] += correlation * noise[place - 1]
    seconds = np.exp(random.normal(0, between) + noise)
    found = within_process([(1, float(each)) for each in seconds])
    return {**found, "step_time": seconds.mean()}


@pytest.mark.parametrize("correlation", [0.0, 0.6])
@pytest.mark.parametrize(("between", "within"), [(0.05, 0.02), (0.01, 0.1)])
def test_both_parts_are_found_again(between: float, within: float, correlation: float) -> None:
    random = np.random.default_rng(4)
    runs = pd.DataFrame([cell(random, between, within, correlation) for _ in range(400)])
    found = noise_split(runs, pd.Series(0, runs.index)).loc[0]
    assert found["sd_within"] == pytest.approx(within, rel=0.05)
    assert found["sd_between"] == pytest.approx(between, rel=0.25, abs=0.005)


def test_processes_that_differ_by_their_windows_alone_have_nothing_between_them() -> None:
    random = np.random.default_rng(4)
    runs = pd.DataFrame([cell(random, 0.0, 0.1, 0.0) for _ in range(400)])
    assert noise_split(runs, pd.Series(0, runs.index)).loc[0, "sd_between"] < 0.004  # of .01, the error of a mean


def test_too_few_windows_or_processes_tell_nothing() -> None:
    assert set(within_process([(1, 1.0)] * 3).values()) == {None}
    runs = pd.DataFrame([{"step_time": 1.0, "sd_within": 0.1, "error_within": 0.05}])
    assert np.isnan(noise_split(runs, pd.Series([0])).loc[0, "sd_between"])
