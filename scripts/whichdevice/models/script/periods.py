"""The periods of a script's training, whichever framework trains: each lies between two ends of what trains.

    periods = Periods[Turn]()
    periods.add(Turn(optimizer, ...))    # at the end of each step of an optimiser, or function that takes gradients
    periods.of_least()                   # the turns of each period of the one that ends least often
"""

import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

from whichdevice.models.script.amounts import Length, Loop, length_of

PERIODS = 2  # that are recorded, unless a step varies or is known to be the same again
SLOW = 10.0  # seconds of a period, from which on one is enough
PATIENCE, MANY = 20.0, 64  # seconds and ends of some that train for which another one is waited for
TIMED_PERIODS, TIMED_SECONDS = 20, 10.0  # until a step is timed here


@dataclass
class Turn:
    """The work between two ends of what trains."""

    end: Any  # the optimiser that stepped, or the function that took gradients
    loops: list[Loop]
    line: int | None  # of the script


T = TypeVar("T", bound=Turn)


class Periods(Generic[T]):
    """The turns of a training so far."""

    def __init__(self) -> None:
        self.turns = list[T]()
        self.ends = Counter[Any]()  # of each that trains
        self.began = time.monotonic()

    def add(self, turn: T) -> None:
        """Add what ran until a training step has ended."""
        if not self.turns:
            self.began = time.monotonic()
        self.turns.append(turn)
        self.ends[turn.end] += 1

    @property
    def is_whole(self) -> bool:
        """Return whether something that trains ended again."""
        return any(count > 1 for count in self.ends.values())

    def are_enough(self, waited: float, wanted: int = PERIODS, known: Collection[Any] = ()) -> bool:
        """Return whether there are as many periods as wanted of all that is known to train, after so many seconds."""
        counts = [self.ends[one] for one in {*self.ends, *known}]
        least = 1 if waited > SLOW else wanted
        return min(counts) > least or waited > PATIENCE or len(self.turns) > MANY * (1 + len(known or counts))

    def of_least(self) -> list[list[T]]:
        """Return the turns of each period of what ends least often, of those that ended again; else all in one."""
        repeated = [end for end, count in self.ends.items() if count > 1]
        if not repeated:
            return [self.turns]
        least = min(repeated, key=self.ends.__getitem__)
        places = [place for place, turn in enumerate(self.turns) if turn.end == least]
        return [self.turns[begin + 1 : end + 1] for begin, end in pairwise(places)]

    def length(self, drawn: Mapping[int, float]) -> Length:
        """Return how long the loops around them go on; `drawn` are batches of a period by the place of their loader."""
        least = self.of_least()[-1][-1].end
        ends = [turn for turn in self.turns if turn.end == least]
        return length_of(ends[0].loops, ends[-1].loops, max(1, len(ends) - 1), drawn)
