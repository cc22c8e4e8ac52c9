"""Compute intervals, decide comparisons by one rule, and split noise.

Repeats become one number by a geometric mean with a 95 % t-interval on logarithms.

Speeds are compared by logarithms, so a ratio of 2 and one of 1/2 are equally far from 1. Repeats are paired (one-
sample t on the log-ratios of each repeat). Over all comparisons of a family the p values are corrected by S. Holm, "A
simple sequentially rejective multiple test procedure", Scand. J. Statist. 6, 1979, so that with nothing to find a
family holds any false "faster" or "slower" at most once in 20. A family is everything that one table judges along one
axis, such as all devices.

- faster, slower: Holm's p below 0.05, and the ratio beyond 3 %. This goes first: a difference of 4 % that is sure is
  "faster", although it also lies within 5 %.
- same within 5 %: the 90 % interval lies inside 0.95 to 1.05 (two one-sided tests at 5 %, D. J. Schuirmann, J.
  Pharmacokinet. Biopharm. 15, 1987). Each such test is for one comparison alone.
- undecided: everything else, and always with n = 1.
"""

from collections.abc import Sequence
from functools import cache
from itertools import chain
from math import isqrt, sqrt

import numpy as np
import pandas as pd
from scipy import special

from whichdevice.study.tables.base import columns_of

CONFIDENCE = 0.95
POWER = 0.8
MAX_REPEATS = 10_000
EQUIVALENCE_LEVEL = 0.05
FASTER, SLOWER, SAME, UNDECIDED = "faster", "slower", "same within 5 %", "undecided"
LEVEL, MIN_DIFFERENCE, EQUAL_LOW, EQUAL_HIGH = 0.05, 1.03, 0.95, 1.05
MIN_WINDOWS = 4
NOISE_RUN_COLUMNS = columns_of("noise_of_run")


@cache
def t_quantile(n: int) -> float:
    """Student's t that a two-sided 95 % interval over n values uses; NaN below two values."""
    return float(special.stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) if n > 1 else float("nan")


def geometric(values: pd.Series, groups: pd.Series) -> pd.DataFrame:
    """Geometric mean, interval and n of each group of `values` (ratio scale; missing and non-positive are left out).

    Returns columns `mean`, `low`, `high`, `n`, indexed by group. One value has a mean and no interval.
    """
    numbers = values.astype("float64")
    logs = pd.Series(np.log(numbers.where(numbers > 0)), numbers.index)
    means = logs.groupby(groups, sort=False).agg(["mean", "std", "count"])
    half = means["count"].map(t_quantile) * means["std"] / np.sqrt(means["count"].where(means["count"] > 0))
    return pd.DataFrame(
        {
            "mean": np.exp(means["mean"]),
            "low": np.exp(means["mean"] - half),
            "high": np.exp(means["mean"] + half),
            "n": means["count"],
        }
    )


def arithmetic(values: pd.Series, groups: pd.Series) -> pd.DataFrame:
    """95 % t-interval of each group's plain mean: columns `low` and `high`, missing below two values."""
    means = values.astype("float64").groupby(groups, sort=False).agg(["mean", "std", "count"])
    half = means["count"].map(t_quantile) * means["std"] / np.sqrt(means["count"].where(means["count"] > 0))
    return pd.DataFrame({"low": means["mean"] - half, "high": means["mean"] + half})


def repeats_to_decide(
    mean: np.ndarray, variance: np.ndarray, level: np.ndarray, limits: np.ndarray
) -> np.ndarray:
    """Smallest number of repeats (of each side, where they are not paired) with 80 % power; at most `MAX_REPEATS`.

    `mean`: log-ratios; `variance`: of one repeat's log-ratio; `level`: of the two-sided test, all of one length.
    `limits`: logarithms of the least difference and of the lower and upper limit of equivalence.
    """
    low, high = np.full(len(mean), 1), np.full(len(mean), MAX_REPEATS)
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = _power(middle, mean, variance, level, limits) >= POWER
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _power(
    n: np.ndarray, mean: np.ndarray, variance: np.ndarray, level: np.ndarray, limits: np.ndarray
) -> np.ndarray:
    """The chance that n repeats decide, by the more likely of the two ways."""
    least, lower, upper = limits
    error, degrees = np.sqrt(variance / n), np.maximum(n - 1, 1e-9)
    reach = np.maximum(special.stdtrit(degrees, 1 - level / 2) * error, least)
    differs = special.stdtr(degrees, (np.abs(mean) - reach) / error)
    one_sided = special.stdtrit(degrees, 1 - EQUIVALENCE_LEVEL)
    inside = special.stdtr(degrees, (upper - mean) / error - one_sided)
    alike = inside + special.stdtr(degrees, (mean - lower) / error - one_sided) - 1
    return np.maximum(differs, alike)


def paired(logs: pd.Series, groups: pd.Series) -> pd.DataFrame:
    """Return what is needed to judge each group of log-ratios, a value per pair; missing ones are left out.

    Returns n, mean, error, degrees (of freedom) and variance, indexed by group.
    """
    means = logs.astype("float64").groupby(groups, sort=False).agg(["count", "mean", "var"])
    n = means["count"]
    return pd.DataFrame(
        {
            "n": n,
            "mean": means["mean"],
            "error": np.sqrt(means["var"] / n),
            "degrees": n - 1.0,
            "variance": means["var"],
        }
    )


def decided(logs: pd.DataFrame, family: pd.Series | None = None) -> pd.DataFrame:
    """Judge what `paired` returned, one family or as many as `family` (with the same index) names.

    Returns n, ratio, ratio_low, ratio_high and the columns `decision`, indexed as `found`. One value has a ratio alone.
    """
    family = pd.Series(0, logs.index) if family is None else family
    mean, error = logs["mean"].to_numpy(float), logs["error"].to_numpy(float)
    degrees = logs["degrees"].where(logs["degrees"] > 0).to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where((mean == 0) & (error == 0), 0.0, np.abs(mean) / error)
    judged = pd.DataFrame({"n": logs["n"], "ratio": np.exp(mean)}, logs.index)
    for name, confidence in [("", 1 - LEVEL), ("_90", 1 - 2 * LEVEL)]:
        half = special.stdtrit(degrees, 0.5 + confidence / 2) * error
        judged[f"ratio_low{name}"], judged[f"ratio_high{name}"] = np.exp(mean - half), np.exp(mean + half)
    judged["p"] = 2 * special.stdtr(degrees, -distance)
    judged["p_holm"], factor = holm(judged["p"], family)
    judged["verdict"] = _verdicts(judged)
    open_ = (judged["verdict"] == UNDECIDED) & judged["p"].notna()
    part = logs[open_]
    needed = repeats_to_decide(
        part["mean"].to_numpy(float),
        part["variance"].to_numpy(float),
        LEVEL / factor[open_].to_numpy(float),
        np.log([MIN_DIFFERENCE, EQUAL_LOW, EQUAL_HIGH]),
    )
    judged["n_to_decide"] = pd.Series(needed, part.index, dtype="Int64").reindex(judged.index)
    return judged


def holm(p: pd.Series, family: pd.Series) -> tuple[pd.Series, pd.Series]:
    """p values corrected within each family, and the factor that each has to pass; missing ones do not count.

    That is Holm's own up to the first that is not rejected, whose factor all after it wait for.
    """
    ordered = p.dropna().sort_values(kind="stable")
    of = family.loc[ordered.index]
    factor = of.groupby(of, sort=False).transform("size") - of.groupby(of, sort=False).cumcount()
    corrected = (ordered * factor).clip(upper=1.0).groupby(of, sort=False).cummax()
    waited = factor.where(corrected >= LEVEL).groupby(of, sort=False).cummax()
    return corrected.reindex(p.index), waited.fillna(factor).astype(int).reindex(p.index)


def _verdicts(judged: pd.DataFrame) -> np.ndarray:
    sure = judged["p_holm"] < LEVEL
    alike = (judged["ratio_low_90"] >= EQUAL_LOW) & (judged["ratio_high_90"] <= EQUAL_HIGH)
    beyond = [judged["ratio"] > MIN_DIFFERENCE, judged["ratio"] < 1 / MIN_DIFFERENCE]
    return np.select([sure & beyond[0], sure & beyond[1], alike], [FASTER, SLOWER, SAME], UNDECIDED)


def within_process(windows: Sequence[tuple[int, float]]) -> dict[str, float | None]:
    """`RUN_COLUMNS` of windows as (steps, seconds) in order; None below four of them."""
    if len(windows) < MIN_WINDOWS:
        return dict.fromkeys(NOISE_RUN_COLUMNS)
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
