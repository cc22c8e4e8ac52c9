"""Where a series of step times settles, and whether what is left still has a trend. Pure functions of the series.

The end of the warm-up is MSER's (White, "An effective truncation heuristic for bias reduction in simulation output",
Simulation 69, 1997), on batches as in MSER-5. What is left is tested with Mann and Kendall's rank test ("Nonparametric
tests against trend", Econometrica 13, 1945), with the exact distribution; its size is Theil and Sen's slope.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np

Window = tuple[int, float]  # steps, seconds

MOST_BATCHES = 20  # windows beyond are averaged in batches, so that neighbours hang together less
MIN_VALUES = 5  # four values in order have p = .08: no test can tell
SIGNIFICANCE = 0.05
BOUND = 0.01  # of the step time: a smaller cut or drift changes no verdict


@dataclass(frozen=True)
class Trend:
    """What the rank test says of a series; without direction and p it had too few values."""

    direction: Literal["none", "rising", "falling"] | None = None
    p: float | None = None
    drift: float | None = None  # change over the series as a share of its median

    @property
    def goes_on(self) -> bool:
        """Whether there is a trend."""
        return self.direction in ("rising", "falling")


def trend_of(windows: Sequence[Window]) -> Trend:
    """Mann-Kendall on batch means of the step time; a trend is significant and drifts by more than `BOUND`."""
    values = _step_times(_batches(windows))
    if len(values) < MIN_VALUES:
        return Trend()
    early, late = np.triu_indices(len(values), 1)
    signs = np.sign(values[late] - values[early])
    p = _p_value(len(values), int(abs(signs.sum())))
    slope = np.median((values[late] - values[early]) / (late - early))
    drift = float(slope * (len(values) - 1) / np.median(values))
    if p >= SIGNIFICANCE or abs(drift) <= BOUND:
        return Trend("none", p, drift)
    return Trend("rising" if drift > 0 else "falling", p, drift)


def settled_from(windows: Sequence[Window], least: int) -> int:
    """The first window that counts, at least `least`: where the standard error of the mean of the rest is smallest.

    Looks at the first half of the windows beyond `least`, as MSER does. A cut that would change the mean of the rest
    by less than `BOUND` is not made.
    """
    batches = _batches(windows[least:])
    values = _step_times(batches)
    half = len(values) // 2
    if half < 1 or len(values) < MIN_VALUES:
        return least
    errors = [values[cut:].var() / (len(values) - cut) for cut in range(half + 1)]
    cut = int(np.argmin(errors))
    if cut == 0 or abs(values.mean() / values[cut:].mean() - 1) <= BOUND:
        return least
    return least + sum(len(batch) for batch in batches[:cut])


def _batches(windows: Sequence[Window]) -> list[Sequence[Window]]:
    """At most `MOST_BATCHES` runs of neighbouring windows, as even as can be."""
    count = min(MOST_BATCHES, len(windows))
    ends = [place * len(windows) // count for place in range(count + 1)] if count else [0]
    return [windows[start:end] for start, end in pairwise(ends)]


def _step_times(batches: Sequence[Sequence[Window]]) -> np.ndarray:
    return np.array([sum(took for _, took in batch) / sum(steps for steps, _ in batch) for batch in batches])


def _p_value(n: int, statistic: int) -> float:
    """Two-sided probability of a Kendall score of at least `statistic` among n values in random order, no ties."""
    if statistic == 0:
        return 1.0
    inversions = np.arange(n * (n - 1) // 2 + 1)
    scores = abs(n * (n - 1) // 2 - 2 * inversions)
    return float(min(1.0, _inversions(n)[scores >= statistic].sum()))


@cache
def _inversions(n: int) -> np.ndarray:
    """Share of the permutations of n values with 0, 1, 2 ... inversions (Mahonian numbers)."""
    shares = np.ones(1)
    for length in range(2, n + 1):
        shares = np.convolve(shares, np.full(length, 1 / length))
    return shares
