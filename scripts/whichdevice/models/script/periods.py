"""The periods of a script's training, whichever framework trains: each lies between two ends of what trains.

    periods = Periods[Turn]()
    periods.add(Turn(optimizer, ...))    # at the end of each step of an optimiser, or function that takes gradients
    periods.of_least()                   # the turns of each period of the one that ends least often
"""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

from whichdevice.models.script.amounts import Length, Loop, length_of

PERIODS = 2  # that are recorded, unless a step varies or is known to be the same again
SLOW = 10.0  # seconds of a period, from which on one is enough
PATIENCE, MANY = 20.0, 64  # seconds and ends of some that train for which another one is waited for
LONGEST = 120.0  # seconds until a period is taken that may have more than a step
TIMED_PERIODS, TIMED_SECONDS = 20, 10.0  # until a step is timed here


@dataclass
class Turn:
    """The work between two ends of what trains."""

    end: Any  # the optimiser that stepped, or the function that took gradients
    loops: list[Loop]
    line: int | None  # of the script


T = TypeVar("T", bound=Turn)


class Periods(ABC, Generic[T]):
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

    @abstractmethod
    def done(self, turns: Sequence[T]) -> Counter[Any]:
        """Return what some turns run, each with how often."""

    def are_enough(self, waited: float, wanted: int = PERIODS, known: Collection[Any] = ()) -> bool:
        """Return whether there are as many periods as wanted of all that is known to train, after so many seconds."""
        counts = [self.ends[one] for one in {*self.ends, *known}]
        if min(counts) == PERIODS and waited < LONGEST and self._has_more():
            return False
        least = 1 if waited > SLOW else wanted
        return min(counts) > least or waited > PATIENCE or len(self.turns) > MANY * (1 + len(known or counts))

    def of_least(self) -> list[list[T]]:
        """Return the turns of each period of what ends least often, of those that ended again; else all in one.

        Without a period that runs all of another one and more: scripts evaluate at their step number 0.
        """
        periods = self._whole()
        runs = [self.done(period) for period in periods]
        return [period for period, run in zip(periods, runs, strict=True) if not any(other < run for other in runs)]

    def before(self) -> list[T]:
        """Return the turns before the first period."""
        return self.turns[: next(place for place, turn in enumerate(self.turns) if turn is self._whole()[0][0])]

    def _has_more(self) -> bool:
        """Return whether the first period runs all that came before it, and more: the next one shows what a step is."""
        before = self.done(self.before())
        return bool(before) and before < self.done(self._whole()[0])

    def _whole(self) -> list[list[T]]:
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
