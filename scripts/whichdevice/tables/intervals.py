"""Geometric means with 95 % t-intervals on logarithms: how repeats become one number with an error bar."""

from functools import cache

import numpy as np
import pandas as pd
from scipy import stats

CONFIDENCE = 0.95


@cache
def t_quantile(n: int) -> float:
    """Student's t that a two-sided 95 % interval over n values uses; NaN below two values."""
    return float(stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1)) if n > 1 else float("nan")


def geometric(values: pd.Series, groups: pd.Series) -> pd.DataFrame:
    """Geometric mean, interval and n of each group of `values` (ratio scale; missing and non-positive are left out).

    Returns columns `mean`, `low`, `high`, `n`, indexed by group. One value has a mean and no interval.
    """
    numbers = values.astype("float64")
    logs = pd.Series(np.log(numbers.where(numbers > 0)), numbers.index)
    found = logs.groupby(groups, sort=False).agg(["mean", "std", "count"])
    half = found["count"].map(t_quantile) * found["std"] / np.sqrt(found["count"].where(found["count"] > 0))
    return pd.DataFrame(
        {
            "mean": np.exp(found["mean"]),
            "low": np.exp(found["mean"] - half),
            "high": np.exp(found["mean"] + half),
            "n": found["count"],
        }
    )


def arithmetic(values: pd.Series, groups: pd.Series) -> pd.DataFrame:
    """95 % t-interval of each group's plain mean: columns `low` and `high`, missing below two values."""
    found = values.astype("float64").groupby(groups, sort=False).agg(["mean", "std", "count"])
    half = found["count"].map(t_quantile) * found["std"] / np.sqrt(found["count"].where(found["count"] > 0))
    return pd.DataFrame({"low": found["mean"] - half, "high": found["mean"] + half})
