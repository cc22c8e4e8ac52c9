"""Families of comparisons resampled from measured blocks, and what the project's own rule says of them.

A comparison takes n blocks without replacement. Where nothing differs, either of a pair may be the baseline, so that
by construction every verdict is a false alarm. Comparisons share blocks: the rates are those of one sitting.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from whichdevice.study.tables.decision_rule import FASTER, SLOWER, decided, paired


def pairs_of(speeds: np.ndarray, n: int, random: np.random.Generator, shuffled: bool = True) -> np.ndarray:
    """Log-ratios of n blocks drawn without replacement; `shuffled`: either of a pair may be the baseline."""
    drawn = np.log(speeds[random.permutation(len(speeds))[:n]])
    return (drawn[:, 1] - drawn[:, 0]) * (random.choice([-1, 1], n) if shuffled else 1)


def judged(comparisons: Sequence[np.ndarray], family: int) -> np.ndarray:
    """What the project's own rule says, [families, comparisons]: faster, slower, or nothing."""
    groups = np.repeat(np.arange(len(comparisons)), len(comparisons[0]))
    pairs = paired(pd.Series(np.concatenate(comparisons)), pd.Series(groups))
    verdicts = decided(pairs, pd.Series(pairs.index // family, pairs.index))["verdict"].to_numpy(str)
    return np.where(np.isin(verdicts, [FASTER, SLOWER]), verdicts, "").reshape(-1, family)


def alarm_rate(speeds: np.ndarray, n: int, family: int, families: int, random: np.random.Generator) -> float:
    """Share of families with an alarm though nothing differs; it is as unsure as the blocks are few."""
    same = [pairs_of(speeds, n, random) for _ in range(families * family)]
    return float((judged(same, family) != "").any(axis=1).mean())


def planted_verdicts(
    slowed: np.ndarray, alike: np.ndarray, n: int, family: int, families: int, random: np.random.Generator
) -> np.ndarray:
    """Verdicts, [families, family]: the first comparison of each is with the slowed cell, all others of one cell."""
    drawn = [
        pairs_of(slowed, n, random, shuffled=False) if place == 0 else pairs_of(alike, n, random)
        for _ in range(families)
        for place in range(family)
    ]
    return judged(drawn, family)


def half_width(speeds: np.ndarray) -> float:
    """Half the width of the 95 % t-interval on logarithms, as a share."""
    logs = np.log(speeds)
    return float(np.expm1(stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))))


def processes_for(width: float, spread: float) -> int:
    """Smallest n whose interval has at most this half-width, at this standard deviation of the logarithms."""
    return next(
        n for n in range(2, 10_000) if np.expm1(stats.t.ppf(0.975, n - 1) * spread / np.sqrt(n)) <= width
    )  # fmt: skip
