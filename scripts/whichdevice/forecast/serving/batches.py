"""How many requests a second a device answers in time that predicts in batches.

    capacity({1: 0.002, 8: 0.004, 64: 0.02}, seconds=0.1, slow=np.ones(1))

Requests come at random. Those that wait when the device is free go together, as dynamic batching of TensorFlow Serving
and Triton does. One twice as slow meets at half the rate what this one meets, twice as long.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
REQUESTS = 800  # simulated at each rate
LOADS = np.array([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98])  # of the rate at full batches
PERCENT_IN_TIME = 90  # per cent of the requests that must be in time
WARM = 0.1  # share of the requests at the beginning that are not counted


def capacity(steps: Mapping[int, float], seconds: float, slow: Array) -> Array:
    """Return the most requests a second in time, for each number of times that a step is slower; 0: none is in time.

    `steps` are seconds of a step by its batch; of a batch between two of them it is between theirs.
    """
    full = max(batch / step for batch, step in steps.items())
    worst = np.maximum.accumulate([latency(steps, float(share) * full) for share in LOADS])
    place = np.searchsorted(worst, seconds / slow, "right")
    most = LOADS[np.maximum(place, 1) - 1] * full / slow
    return np.asarray(np.where(place > 0, most, 0.0))


def latency(steps: Mapping[int, float], rate: float) -> float:
    """Return the seconds within which nine in ten requests are answered at a rate, from arrival to answer."""
    random = np.random.default_rng(0)
    gaps = -np.log1p(-(random.permutation(REQUESTS) + 0.5) / REQUESTS)  # exponential, stratified
    arrivals = np.cumsum(gaps) / rate
    sizes = sorted(steps)
    times = np.interp(np.arange(sizes[-1] + 1), sizes, [steps[size] for size in sizes])
    ends, free, first = np.empty(REQUESTS), 0.0, 0
    while first < REQUESTS:
        free = max(free, float(arrivals[first]))
        last = min(int(np.searchsorted(arrivals, free, "right")), first + sizes[-1])
        free += float(times[last - first])
        ends[first:last] = free
        first = last
    return float(np.percentile((ends - arrivals)[int(WARM * REQUESTS) :], PERCENT_IN_TIME))
