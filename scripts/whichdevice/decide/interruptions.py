"""Work on machines that are taken away or whose sessions end: hours that are billed, how often to save.

A machine is taken away at a constant rate, so many times an hour. What was done since the last checkpoint
is lost; then another machine has to be found (nothing is billed), started, and the checkpoint loaded. Young's formula
gives the work between two checkpoints for which that takes the least time in all. Times are in seconds.
"""

import math
from dataclasses import dataclass

import numpy as np

from whichdevice.decide.rows import Row

HOUR = 3600.0
RATE = 0.05 / HOUR  # times a second that a spot machine is taken away, assumed: few providers publish theirs
BACK_TIME = 600.0  # until another machine is found, assumed
STORAGE = 0.5e9  # bytes a second to a bucket or a volume and back, assumed
SAVE_TIME = 5.0  # of any checkpoint


@dataclass(frozen=True)
class Interruptions:
    """Seconds that a checkpoint takes, and that coming back takes, with the start of a machine."""

    save: float
    load: float

    @property
    def interval(self) -> float:
        """Seconds of work between two checkpoints."""
        return math.sqrt(2 * self.save / RATE)

    def billed(self, work: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return expected seconds that are billed for so much work, and the standard deviation of their logarithm."""
        length = np.minimum(work, self.interval) + np.where(work > self.interval, self.save, 0.0)
        parts = np.maximum(work / self.interval, 1.0)
        mean = parts * np.expm1(RATE * length) * math.exp(RATE * self.load) / RATE
        lost_squares = self.load**2 + self.load * length + length**2 / 3  # of one interruption: anywhere in a segment
        return mean, np.sqrt(np.log1p(RATE * lost_squares / mean))


def taken_away(row: Row) -> Interruptions | None:
    """Return what saving and coming back take on a machine that may go, or whose sessions end."""
    if not row.spot and not row.session_hours:
        return None
    moved = round(row.state_bytes / STORAGE)
    return Interruptions(SAVE_TIME + moved, row.start_time + moved)
