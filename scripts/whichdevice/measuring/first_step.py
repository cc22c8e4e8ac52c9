"""The steps of a training loop as they are timed, with a look at every loss."""

from collections.abc import Callable
from functools import partial
from math import isfinite

from whichdevice.backends.base import Means, TrainingLoop
from whichdevice.errors import StudyError
from whichdevice.workloads.base import BatchOrder


class FirstStepWatched:
    """Prepares so many steps; raises StudyError where the first one gives no finite loss: it would not learn."""

    def __init__(self, loop: TrainingLoop, order: BatchOrder) -> None:
        self._loop, self._order = loop, order
        self._seen = False
        self._steps = 0
        self.lost: int | None = None  # steps after which the loss was no number any more

    def __call__(self, steps: int) -> Callable[[], object]:
        """What runs the next `steps` steps."""
        run = partial(self._loop.run, self._order.take(steps))
        return partial(self._watched, run, steps) if self._seen else partial(self._first, run)

    def _watched(self, run: Callable[[], Means], steps: int) -> Means:
        means = run()
        self._steps += steps
        if self.lost is None and not isfinite(means.loss):
            self.lost = self._steps
        return means

    def _first(self, run: Callable[[], Means]) -> Means:
        self._seen = True
        self._steps = 1
        return with_finite_loss(run())


def with_finite_loss(means: Means) -> Means:
    """The means of a first step; raises StudyError where its loss is no number."""
    if not isfinite(means.loss):
        raise StudyError(
            f"the loss is {means.loss} at the first step: look at the loss, the data and the initial weights"
        )
    return means
