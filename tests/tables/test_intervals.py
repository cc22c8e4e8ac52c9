"""Geometric means and t-intervals give the numbers that hand and SciPy give."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from whichdevice.tables.statistics import geometric, t_quantile


def test_a_hand_worked_mean_and_interval() -> None:
    found = geometric(pd.Series([1.0, 4.0]), pd.Series(["a", "a"])).loc["a"]
    half = 12.706204736432095 * math.sqrt(2) * math.log(2) / math.sqrt(2)  # t(.975, 1) s / sqrt(n)
    assert found["mean"] == pytest.approx(2)
    assert found["low"] == pytest.approx(2 * math.exp(-half))
    assert found["high"] == pytest.approx(2 * math.exp(half))
    assert found["n"] == 2


def test_the_interval_is_scipys() -> None:
    values = np.array([1.2, 1.1, 1.4, 1.3, 1.25])
    logs = np.log(values)
    low, high = stats.t.interval(0.95, len(logs) - 1, loc=logs.mean(), scale=stats.sem(logs))
    found = geometric(pd.Series(values), pd.Series([0] * 5)).loc[0]
    assert [found["low"], found["high"]] == pytest.approx([math.exp(low), math.exp(high)])


def test_one_value_has_a_mean_and_no_interval() -> None:
    found = geometric(pd.Series([3.0, None]), pd.Series(["a", "a"])).loc["a"]
    assert found["mean"] == pytest.approx(3)
    assert found["n"] == 1
    assert math.isnan(found["low"])
    assert math.isnan(t_quantile(1))


def test_what_cannot_be_logged_is_left_out() -> None:
    found = geometric(pd.Series([0.0, -1.0, 5.0]), pd.Series([1, 1, 1])).loc[1]
    assert (found["mean"], found["n"]) == (pytest.approx(5), 1)
