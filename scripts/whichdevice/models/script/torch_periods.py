"""The periods of a PyTorch script's training: what lies between two ends of the optimiser that steps least often.

    periods = Periods()
    periods.add(Turn(optimizer, ...))    # at the end of each step
    least, turns = periods.of_least()    # the turns of each period of that optimiser
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from whichdevice.models.script.amounts import Loop

PERIODS = 2  # that are recorded, unless the first one has the passes of the step before it
SLOW = 10.0  # seconds of a period, from which on one is enough
NOT_YET = -1.0  # seconds of waiting for what has not come again
PATIENCE, MANY_STEPS = 20.0, 64  # seconds and steps of some optimisers for which another one is waited for


@dataclass
class Turn:
    """The work between two ends of optimisers' steps."""

    optimizer: Any
    segments: Sequence[Any]  # of the recorder
    loaded: Counter[int]  # batches by the place of their loader in memory
    rows: Counter[Any]  # examples that modules were called with in training, by the place in the script
    loops: list[Loop]
    trainer: Any  # of a library, that states its steps
    line: int | None  # of the script


class Periods:
    """The turns of a training so far."""

    def __init__(self) -> None:
        self.turns = list[Turn]()
        self.stepped = Counter[Any]()  # steps by optimiser
        self.began = time.monotonic()

    def add(self, turn: Turn) -> None:
        """Add what ran until an optimiser has stepped."""
        if not self.turns:
            self.began = time.monotonic()
        self.turns.append(turn)
        self.stepped[turn.optimizer] += 1

    @property
    def is_whole(self) -> bool:
        """Return whether some optimiser stepped again."""
        return any(count > 1 for count in self.stepped.values())

    def are_enough(self, optimizers: Sequence[Any], waited: float) -> bool:
        """Return whether there are periods of all optimisers, after so many seconds of waiting for them."""
        known = [one for one in optimizers if any(
            weight.requires_grad for group in one.param_groups for weight in group["params"])]  # fmt: skip
        if waited == NOT_YET:
            return False
        counts = [self.stepped[one] for one in {*self.stepped, *known}]
        if min(counts) > 1 and (waited > SLOW or min(counts) > PERIODS or self.repeats):
            return True
        return waited > PATIENCE or len(self.turns) > MANY_STEPS * (1 + len(known))

    def of_least(self) -> tuple[Any, list[list[Turn]]]:
        """Return the optimiser that steps least often, and the turns of each of its periods."""
        repeated = [one for one, count in self.stepped.items() if count > 1] or [*self.stepped]
        least = min(repeated, key=self.stepped.__getitem__)
        ends = [place for place, turn in enumerate(self.turns) if turn.optimizer is least]
        ends = [-1, *ends] if len(ends) == 1 else ends  # the first step is all that there is
        return least, [self.turns[begin + 1 : end + 1] for begin, end in pairwise(ends)]

    @property
    def repeats(self) -> bool:
        """Return whether the first period has the passes of what came before it."""
        first = self.of_least()[1][0]
        before = self.turns[: next(place for place, turn in enumerate(self.turns) if turn is first[0])]
        return _passes(before) == _passes(first)


def _passes(turns: Sequence[Turn]) -> Counter[Any]:
    """The kernels of forward and backward passes."""
    kernels = Counter[Any]()
    for segment in (segment for turn in turns for segment in turn.segments):
        for kernel, count in segment.kernels.items():
            if kernel[0] != "optimizer":
                kernels[kernel] += count * segment.times
    return kernels
