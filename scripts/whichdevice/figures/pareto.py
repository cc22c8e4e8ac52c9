"""Which of several choices nothing beats: less of one thing, and no worse in the other."""

import numpy as np


def front(cost: np.ndarray, quality: np.ndarray, higher: bool) -> np.ndarray:
    """Places of the points that no other beats in both directions, the cheapest first; of equal ones the first."""
    ordered = np.lexsort((-quality if higher else quality, cost))
    best = (np.maximum if higher else np.minimum).accumulate(quality[ordered])
    kept = np.concatenate([[True], best[1:] != best[:-1]]) if len(best) else np.array([], bool)
    return np.asarray(ordered[kept])
