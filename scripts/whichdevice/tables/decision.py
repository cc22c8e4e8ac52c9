"""One rule that decides every comparison: faster, slower, same within 5 %, or undecided with the n that would decide.

Speeds are compared by logarithms, so a ratio of 2 and one of 1/2 are equally far from 1. Within a study repeats are
paired (one-sample t on the log-ratios of each repeat); across studies they are not (Welch's t). Over all comparisons
of a family the p values are corrected by S. Holm, "A simple sequentially rejective multiple test procedure", Scand.
J. Statist. 6, 1979, so that with nothing to find a family holds any false "faster" or "slower" at most once in 20.
A family is everything that one table judges along one axis: all devices, or all loops, or all cells of two studies.

- faster, slower: Holm's p below .05, and the ratio beyond 3 %. This goes first: a difference of 4 % that is sure is
  "faster", although it also lies within 5 %.
- same within 5 %: the 90 % interval lies inside .95 to 1.05 (two one-sided tests at 5 %, D. J. Schuirmann, J.
  Pharmacokinet. Biopharm. 15, 1987). Each such test stands for itself.
- undecided: everything else, and always with n = 1.
"""

import numpy as np
import pandas as pd
from scipy import special

from whichdevice.tables.columns import Column
from whichdevice.tables.sample_size import repeats_to_decide

FASTER, SLOWER, SAME, UNDECIDED = "faster", "slower", "same within 5 %", "undecided"
LEVEL, LEAST_DIFFERENCE, EQUAL_LOW, EQUAL_HIGH = 0.05, 1.03, 0.95, 1.05

DECISION_COLUMNS: dict[str, Column] = {
    "ratio_low_90": Column("float", "lower end of the 90 % interval, which decides on sameness"),
    "ratio_high_90": Column("float", "upper end of the 90 % interval"),
    "p": Column("float", "two-sided t-test on logarithms that the ratio is 1"),
    "p_holm": Column("float", "p, corrected over the family by Holm's method"),
    "verdict": Column(
        "text",
        f"{FASTER}, {SLOWER}: p_holm < .05 and beyond 3 %; else {SAME}: 90 % interval inside .95 to 1.05; else "
        f"{UNDECIDED}",
    ),
    "n_to_decide": Column(
        "int", "where undecided: repeats that would decide with 80 % power, an estimate from the ratio and spread seen"
    ),
}


def paired(logs: pd.Series, groups: pd.Series) -> pd.DataFrame:
    """What is needed to judge each group of log-ratios, a value per pair; missing ones are left out.

    Returns n, mean, variance, degrees (of freedom) and degrees_per_repeat, indexed by group.
    """
    found = logs.astype("float64").groupby(groups, sort=False).agg(["count", "mean", "var"])
    n = found["count"]
    return pd.DataFrame(
        {
            "n": n,
            "mean": found["mean"],
            "error": np.sqrt(found["var"] / n),
            "degrees": n - 1.0,
            "variance": found["var"],
            "degrees_per_repeat": 1.0,
        }
    )


def welch(logs: pd.Series, groups: pd.Series, base_logs: pd.Series, base_groups: pd.Series) -> pd.DataFrame:
    """What is needed to judge log speeds against unpaired ones, for every group that both have.

    As `paired`, with n_base beside n; degrees of freedom by Welch and Satterthwaite.
    """
    of = [
        values.astype("float64").groupby(keys, sort=False).agg(["count", "mean", "var"])
        for values, keys in ((logs, groups), (base_logs, base_groups))
    ]
    both = of[0].join(of[1], how="inner", rsuffix="_base")
    own, base = both["var"] / both["count"], both["var_base"] / both["count_base"]
    spread = own**2 / (both["count"] - 1.0) + base**2 / (both["count_base"] - 1.0)
    least = both[["count", "count_base"]].min(axis=1) - 1.0  # without any spread every count of them does
    variance = both["var"] + both["var_base"]
    squares = both["var"] ** 2 + both["var_base"] ** 2
    return pd.DataFrame(
        {
            "n": both["count"],
            "n_base": both["count_base"],
            "mean": both["mean"] - both["mean_base"],
            "error": np.sqrt(own + base),
            "degrees": ((own + base) ** 2 / spread).where(spread != 0, least),
            "variance": variance,
            "degrees_per_repeat": (variance**2 / squares).where(squares != 0, 1.0),
        }
    )


def decided(found: pd.DataFrame, family: pd.Series | None = None) -> pd.DataFrame:
    """Judge what `paired` or `welch` returned, one family or as many as `family` (alike indexed) names.

    Returns n, ratio, ratio_low, ratio_high and `DECISION_COLUMNS`, indexed as `found`. One value has a ratio alone.
    """
    family = pd.Series(0, found.index) if family is None else family
    mean, error = found["mean"].to_numpy(float), found["error"].to_numpy(float)
    degrees = found["degrees"].where(found["degrees"] > 0).to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where((mean == 0) & (error == 0), 0.0, np.abs(mean) / error)
    judged = pd.DataFrame({"n": found["n"], "ratio": np.exp(mean)}, found.index)
    for name, confidence in [("", 1 - LEVEL), ("_90", 1 - 2 * LEVEL)]:
        half = special.stdtrit(degrees, 0.5 + confidence / 2) * error
        judged[f"ratio_low{name}"], judged[f"ratio_high{name}"] = np.exp(mean - half), np.exp(mean + half)
    judged["p"] = 2 * special.stdtr(degrees, -distance)
    judged["p_holm"], factor = holm(judged["p"], family)
    judged["verdict"] = _verdicts(judged)
    open_ = (judged["verdict"] == UNDECIDED) & judged["p"].notna()
    part = found[open_]
    needed = repeats_to_decide(
        part["mean"].to_numpy(float),
        part["variance"].to_numpy(float),
        part["degrees_per_repeat"].to_numpy(float),
        LEVEL / factor[open_].to_numpy(float),
        np.log([LEAST_DIFFERENCE, EQUAL_LOW, EQUAL_HIGH]),
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
    beyond = [judged["ratio"] > LEAST_DIFFERENCE, judged["ratio"] < 1 / LEAST_DIFFERENCE]
    return np.select([sure & beyond[0], sure & beyond[1], alike], [FASTER, SLOWER, SAME], UNDECIDED)
