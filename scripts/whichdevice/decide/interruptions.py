"""Work on machines that are taken away or whose sessions end: hours that are billed, how often to save.

A machine is taken away at a rate of so many times an hour, at any moment alike. What was done since the last checkpoint
is lost; then another machine has to be found (nothing is billed), started, and the checkpoint loaded. Young and Daly
give the work between two checkpoints for which that takes the least time in all. Times are in seconds.
"""

import math
from dataclasses import dataclass

import numpy as np

HOUR = 3600.0
ASSUMED_RATE = 0.05  # times an hour that a spot machine is taken away, assumed: few providers publish theirs
BACK_TIME = 600.0  # until another machine is found, assumed
STORAGE = 0.5e9  # bytes a second to a bucket or a volume and back, assumed
SAVE_TIME = 5.0  # of any checkpoint
MAX_POWER = 300.0  # of e, beyond which nothing ever ends
HOPELESS = 2.0  # times as long without checkpoints, from which on that is worth a warning


@dataclass(frozen=True)
class Interruptions:
    """How often a machine is taken away, and what coming back takes."""

    rate: float  # times an hour
    save: float
    load: float  # starting a machine included
    back: float = BACK_TIME

    @property
    def interval(self) -> float:
        """Seconds of work between two checkpoints, by Daly's formula of higher order."""
        mean = HOUR / self.rate
        half = math.sqrt(self.save / (2 * mean))
        if half >= 1:
            return mean
        return math.sqrt(2 * self.save * mean) * (1 + half / 3 + half**2 / 9) - self.save

    def billed(self, work: np.ndarray, interval: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return expected seconds that are billed for so much work, and the standard deviation of their logarithm.

        `interval` is the work between two checkpoints, the best one where it is None.
        """
        between = self.interval if interval is None else interval
        length = np.minimum(work, between) + np.where(work > between, self.save, 0.0)
        rate, parts = self.rate / HOUR, np.maximum(work / between, 1.0)
        tries = np.minimum(rate * length, MAX_POWER)
        mean = parts * np.expm1(tries) * math.exp(min(rate * self.load, MAX_POWER / 2)) / rate
        lost_squares = self.load**2 + self.load * length + length**2 / 3  # of one interruption: anywhere in a segment
        return mean, np.sqrt(np.log1p(rate * lost_squares / mean))

    def waiting(self, billed: np.ndarray) -> np.ndarray:
        """Return expected seconds in which there is no machine."""
        return billed * self.rate / HOUR * self.back


def state_time(nbytes: float) -> float:
    """Return seconds in which weights and the optimiser's state go to storage, or back."""
    return float(round(nbytes / STORAGE))
