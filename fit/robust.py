"""Robust least squares of log times: Gauss-Newton steps, a row trusted by the step before, factors held to a start."""

from collections.abc import Callable

import numpy as np

MAX_STEP, SMALL_STEP = 0.7, 1e-4  # of a factor's logarithm
Point = tuple[np.ndarray, np.ndarray]  # log seconds [rows], and their slopes [rows, factors]


def robust_logs(
    at: Callable[[np.ndarray], Point],
    measured: np.ndarray,
    weight: np.ndarray,
    robust: float,
    hold: np.ndarray,
    centre: np.ndarray,
    start: np.ndarray,
    steps: int,
) -> np.ndarray:
    """Return logs of the factors: `hold` is how strongly each is held to `centre`, in units of a row's weight.

    A residual far above `robust` counts as its size, not as its square.
    """
    logs = start.copy()
    for _ in range(steps):
        forecast, slope = at(logs)
        misses = forecast - measured
        trust = weight / np.sqrt(1 + (misses / robust) ** 2)
        square = slope.T @ (slope * trust[:, None]) + np.diag(hold)
        step = np.linalg.solve(square, slope.T @ (trust * misses) + hold * (logs - centre))
        logs = logs - np.clip(step, -MAX_STEP, MAX_STEP)
        if np.abs(step).max() < SMALL_STEP:
            break
    return logs
