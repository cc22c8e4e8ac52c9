"""Where a ratio that was measured at some sizes passes 1: the point, and a 95 % interval by Fieller's argument.

Between two measured sizes log(ratio) is taken for a straight line over log(size), so each pair of repeats gives a
value at every size between: (1 - w) a + w b, with w the share of the way. At the true crossing these values have mean
0, so the sizes at which their t-interval holds 0 are a 95 % confidence set for it: exact for normal logs, whatever
the correlation between the sizes, and without a delta method. (Inverting the t-test as in E. C. Fieller, "Some
problems in interval estimation", JRSS B 16, 1954; derived here: mean(w)² <= t² var(w) / n is a quadratic in w.)
The straight line is an assumption that no interval covers: see how far apart the two measured sizes are. At which
sizes one device is surely faster, and so whether there is a crossing at all, is for `decision` to say.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from whichdevice.tables.intervals import t_quantile

TINY = 1e-12


class Crossing(NamedTuple):
    """A passage through ratio 1. `low` and `high` bound it; sizes between which it lies; the sign above it, 1 or -1."""

    size: float
    low: float
    high: float
    below: int
    above: int
    sign: int


def crossings(logs: pd.DataFrame, signs: Sequence[int]) -> list[Crossing]:
    """Each change of sign, from the smallest size on. Columns of `logs` are sizes, ascending, its rows paired repeats.

    `signs`: for each size 1 or -1 where log(ratio) is surely of that sign, else 0.
    """
    decided = [place for place, sign in enumerate(signs) if sign]
    return [_crossing(logs, i, k, signs[k]) for i, k in pairwise(decided) if signs[i] != signs[k]]


def held_sizes(logs: pd.DataFrame, first: int, last: int) -> tuple[float, float] | None:
    """Smallest and largest size, from column `first` to column `last`, at which the interval holds ratio 1."""
    sizes = [float(size) for size in logs.columns]
    held = []
    for place in range(first, last):
        start, end = _common(logs, place)
        step = np.log(sizes[place + 1] / sizes[place])
        held += [sizes[place] * np.exp(step * share) for piece in held_shares(start, end) for share in piece]
    return (float(min(held)), float(max(held))) if held else None


def held_shares(start: np.ndarray, end: np.ndarray) -> list[tuple[float, float]]:
    """Pieces of [0, 1]: shares w of the way at which the t-interval of the values (1 - w) start + w end holds 0."""
    n = len(start)
    if n < 2:
        return [(0.0, 1.0)]
    scale = t_quantile(n) ** 2 / n
    (v0, cross), (_, v1) = np.cov(start, end)
    m0, rise = start.mean(), end.mean() - start.mean()
    quadratic = [rise**2 - scale * (v0 + v1 - 2 * cross), 2 * (m0 * rise - scale * (cross - v0)), m0**2 - scale * v0]
    roots = np.roots(quadratic)
    inner = sorted({float(root.real) for root in roots if abs(root.imag) < TINY and 0 < root.real < 1})
    points = [0.0, *inner, 1.0]
    pieces = [(a, b) for a, b in pairwise(points) if np.polyval(quadratic, (a + b) / 2) <= 0]
    if rise and 0 <= -m0 / rise <= 1:  # the mean itself: alone where repeats do not differ at all
        pieces.append((-m0 / rise, -m0 / rise))
    return pieces


def _crossing(logs: pd.DataFrame, first: int, last: int, sign: int) -> Crossing:
    """The crossing between two columns of opposite sure signs: where the means pass 0, the middle one of several."""
    sizes: Sequence[int] = [int(size) for size in logs.columns]
    means = logs.mean().to_numpy(float)
    places = [place for place in range(first, last) if means[place] * means[place + 1] <= 0 != means[place + 1]]
    place = places[len(places) // 2]
    share = means[place] / (means[place] - means[place + 1])
    size = sizes[place] * (sizes[place + 1] / sizes[place]) ** share
    low, high = held_sizes(logs, first, last) or (size, size)
    return Crossing(size, min(low, size), max(high, size), sizes[place], sizes[place + 1], sign)


def _common(logs: pd.DataFrame, place: int) -> tuple[np.ndarray, np.ndarray]:
    """The repeats that both ends of a stretch have."""
    both = logs.iloc[:, [place, place + 1]].dropna().to_numpy(float)
    return both[:, 0], both[:, 1]


def ratios_between(logs: pd.DataFrame, place: int, shares: np.ndarray) -> pd.DataFrame:
    """Ratio and its 95 % interval at shares of the way from column `place` to the next: sizes, low, high."""
    start, end = _common(logs, place)
    values = np.outer(1 - shares, start) + np.outer(shares, end)
    n = len(start)
    spread = values.std(axis=1, ddof=1) if n > 1 else np.full(len(shares), np.nan)
    middle = values.mean(axis=1) if n else np.full(len(shares), np.nan)
    half = t_quantile(n) * spread / np.sqrt(max(n, 1))
    below, above = (float(logs.columns[place + step]) for step in (0, 1))
    sizes = below * (above / below) ** shares
    return pd.DataFrame({"size": sizes, "low": np.exp(middle - half), "high": np.exp(middle + half)})
