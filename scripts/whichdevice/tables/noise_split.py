"""Noise split in two: how far step times spread inside a process, and how far processes differ beyond that.

A process counts with one number, total time over steps. Its standard error comes from batch means, since neighbouring
windows are alike (step times drift and flip between modes, so dividing by the number of windows would promise too
much): the windows in order are cut into √n stretches, whose means differ by the slow part of the noise as well. What
the processes of a cell vary more than these errors explain is between them: memory layout, clocks, the other
processes' luck. See G. S. Fishman, "Grouping observations in digital simulation", Management Science 24, 1978.
"""

from collections.abc import Sequence
from itertools import chain
from math import isqrt, sqrt

import numpy as np
import pandas as pd

from whichdevice.tables.columns import Column

LEAST_WINDOWS = 4
RUN_COLUMNS: dict[str, Column] = {
    "sd_within": Column("float", "relative standard deviation of windows' step times; long runs have longer ones"),
    "error_within": Column("float", "relative standard error of the run's step time, by batch means of its windows"),
}
SUMMARY_COLUMNS: dict[str, Column] = {
    "sd_within": Column("float", "relative standard deviation of windows inside a process, root mean square"),
    "sd_between": Column("float", "relative standard deviation between processes beyond what noise inside explains"),
}


def within_process(windows: Sequence[tuple[int, float]]) -> dict[str, float | None]:
    """`RUN_COLUMNS` of windows as (steps, seconds) in order; None below four of them."""
    if len(windows) < LEAST_WINDOWS:
        return dict.fromkeys(RUN_COLUMNS)
    counted = np.fromiter(chain.from_iterable(windows), float, 2 * len(windows)).reshape(-1, 2)
    parts = isqrt(len(counted))
    starts = np.arange(parts) * len(counted) // parts
    steps, seconds = np.add.reduceat(counted, starts, axis=0).T
    with np.errstate(all="ignore"):  # a record may say that a window took no time: then there is no number
        return {
            "sd_within": _deviation(np.log(counted[:, 1] / counted[:, 0])),
            "error_within": _deviation(np.log(seconds / steps)) / sqrt(parts),
        }


def _deviation(values: np.ndarray) -> float:
    """Sample standard deviation of a few values, in a third of the time that ndarray.std takes."""
    apart = values - values.sum() / len(values)
    return sqrt(apart.dot(apart) / (len(values) - 1))


def noise_split(good: pd.DataFrame, cell: pd.Series) -> pd.DataFrame:
    """`SUMMARY_COLUMNS` of each cell of rows of `runs`; `sd_between` needs two processes or more."""
    squares = (good[["sd_within", "error_within"]].astype("float64") ** 2).groupby(cell, sort=False).mean()
    step_time = good["step_time"].astype("float64")
    logs = pd.Series(np.log(step_time.where(step_time > 0)), good.index)
    variance = logs.groupby(cell, sort=False).var()
    between = (variance - squares["error_within"]).clip(lower=0)
    return pd.DataFrame({"sd_within": np.sqrt(squares["sd_within"]), "sd_between": np.sqrt(between)})
