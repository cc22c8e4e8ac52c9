"""Noise inside a process and between processes are told apart, whatever the correlation of neighbouring windows."""

import numpy as np
import pandas as pd
import pytest

from whichdevice.tables.statistics import noise_split, within_process


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


def test_the_error_by_hand() -> None:
    windows = [(1, 1.0), (1, 1.0), (2, 4.0), (1, 2.0)]  # two stretches: 1 s and 2 s a step
    found = within_process(windows)
    assert found["error_within"] == pytest.approx(np.log(2) / np.sqrt(2) / np.sqrt(2))
    assert found["sd_within"] == pytest.approx(np.log([1, 1, 2, 2]).std(ddof=1))


def test_too_few_windows_or_processes_tell_nothing() -> None:
    assert set(within_process([(1, 1.0)] * 3).values()) == {None}
    runs = pd.DataFrame([{"step_time": 1.0, "sd_within": 0.1, "error_within": 0.05}])
    assert np.isnan(noise_split(runs, pd.Series([0])).loc[0, "sd_between"])
