"""Work on machines that are taken away or whose sessions end: hours that are billed, how often to save.

A machine is taken away at a rate of so many times an hour, at any moment alike. What was done since the last checkpoint
is lost; then another machine has to be found (nothing is billed), started, and the checkpoint loaded. Young and Daly
give the work between two checkpoints for which that takes the least time in all. Times are in seconds.
"""

import math
from dataclasses import dataclass

import numpy as np

HOUR = 3600.0
RATE = 0.05  # times an hour that a spot machine is taken away, assumed: few providers publish theirs
BACK_TIME = 600.0  # until another machine is found, assumed
STORAGE = 0.5e9  # bytes a second to a bucket or a volume and back, assumed
SAVE_TIME = 5.0  # of any checkpoint
MAX_POWER = 600.0  # of e, beyond which nothing ever ends
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
        each = self.interval if interval is None else interval
        parts = np.maximum(work / each, 1.0)
        length = np.minimum(work, each) + np.where(work > each, self.save, 0.0)
        mean, variance = self._segment(length)
        return parts * mean, np.sqrt(np.log1p(variance / parts / mean**2))

    def _segment(self, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the time of one segment: the first try, then tries that load before."""
        rate = self.rate / HOUR
        first, again = rate * length, np.minimum(rate * (self.load + length), MAX_POWER / 2)
        first = np.minimum(first, MAX_POWER / 2)
        left = np.exp(-first)
        retry = np.expm1(again) / rate  # mean of all tries after the first
        retry_squares = (np.expm1(2 * again) - 2 * again * np.exp(again)) / rate**2 + retry**2
        lost, lost_squares = (1 - left * (1 + first)) / rate, (2 - left * (first**2 + 2 * first + 2)) / rate**2
        mean = left * length + lost + (1 - left) * retry
        squares = left * length**2 + lost_squares + 2 * retry * lost + (1 - left) * retry_squares
        return mean, np.maximum(squares - mean**2, 0.0)

    def waiting(self, billed: np.ndarray) -> np.ndarray:
        """Return expected seconds in which there is no machine."""
        return billed * self.rate / HOUR * self.back


def checkpoint_times(nbytes: float, start: float) -> tuple[float, float]:
    """Return seconds to save and to load weights and the optimiser's state, on a machine that starts in `start`."""
    return SAVE_TIME + nbytes / STORAGE, start + nbytes / STORAGE


def simulated(
    machine: Interruptions, work: float, interval: float, runs: int, seed: int = 0
) -> np.ndarray:
    """Return billed seconds of so many runs, one event after another: what the formulas are held against."""
    chance = np.random.default_rng(seed)
    left, loading, time = np.full(runs, float(work)), np.zeros(runs), np.zeros(runs)
    while (going := left > 0).any():
        part = np.minimum(left, interval)
        length = loading + part + np.where(left > interval, machine.save, 0.0)
        ends = chance.exponential(HOUR / machine.rate, runs)
        done = going & (ends >= length)
        time += np.where(going, np.minimum(ends, length), 0.0)
        left -= np.where(done, part, 0.0)
        loading = np.where(done, 0.0, machine.load)
    return time
