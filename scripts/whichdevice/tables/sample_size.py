"""How many repeats would decide a comparison that is undecided: an estimate, from the ratio and the spread seen so far.

Taken for true, the ratio seen leads to "faster" or "slower" (two-sided t-test at the level that Holm's method leaves
to this comparison, and an estimate beyond the least difference) or to "same" (two one-sided t-tests at 5 %); the
smaller of the two numbers is given. Power by the shifted t distribution, which stands in for the noncentral one.
From few repeats the spread is itself uncertain, and with it this number: from 3 by a factor of several.
"""

import numpy as np
from scipy import special

POWER = 0.8
MOST = 10_000
EQUIVALENCE_LEVEL = 0.05


def repeats_to_decide(
    mean: np.ndarray, variance: np.ndarray, degrees_per_repeat: np.ndarray, level: np.ndarray, limits: np.ndarray
) -> np.ndarray:
    """Smallest number of repeats (of each side, where they are not paired) with 80 % power; at most `MOST`.

    `mean`: log-ratios; `variance`: of one repeat's log-ratio; `level`: of the two-sided test, all of one length.
    `limits`: logarithms of the least difference and of the lower and upper limit of equivalence.
    """
    low, high = np.full(len(mean), 1), np.full(len(mean), MOST)
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = _power(middle, mean, variance, degrees_per_repeat, level, limits) >= POWER
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _power(
    n: np.ndarray, mean: np.ndarray, variance: np.ndarray, per_repeat: np.ndarray, level: np.ndarray, limits: np.ndarray
) -> np.ndarray:
    """The chance that n repeats decide, by the more likely of the two ways."""
    least, lower, upper = limits
    error, degrees = np.sqrt(variance / n), np.maximum((n - 1) * per_repeat, 1e-9)
    reach = np.maximum(special.stdtrit(degrees, 1 - level / 2) * error, least)
    differs = special.stdtr(degrees, (np.abs(mean) - reach) / error)
    one_sided = special.stdtrit(degrees, 1 - EQUIVALENCE_LEVEL)
    inside = special.stdtr(degrees, (upper - mean) / error - one_sided)
    alike = inside + special.stdtr(degrees, (mean - lower) / error - one_sided) - 1
    return np.maximum(differs, alike)
