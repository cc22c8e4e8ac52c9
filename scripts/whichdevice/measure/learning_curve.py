"""Points of a learning curve where learning has a time budget: quality and loss every few steps.

    curve = LearningCurve(evaluate, emit, budget=6.0, expected=20.0)
    curve.begin()                        # the untrained model; the time begins after it
    curve.add(steps, loss, metric)       # after each call of the loop: a point where one is due
    curve.seconds_left, curve.is_over
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from whichdevice.base.events import Emitter
from whichdevice.measure.backends.base import Means
from whichdevice.measure.record import Point

POINTS = 14  # in the time budget, about
LEAST_POINTS = 10  # even if they take up to twice as long


@dataclass
class LearningCurve:
    """The clock of learning with a `budget` of seconds; `expected` are those that all of its steps would take."""

    evaluate: Callable[[], Means | None]
    emit: Emitter
    budget: float
    expected: float
    points: int = 0
    steps: int = 0
    _since: np.ndarray = field(default_factory=lambda: np.zeros(3))  # steps since the last point, sums of both means

    def begin(self) -> None:
        """Send the point of the untrained model, for which the evaluation is traced, and start the clock."""
        self._began = self._last = time.perf_counter()
        self._send()
        self._began = self._last = time.perf_counter()

    @property
    def seconds_left(self) -> float:
        """Seconds of the budget that are left; negative where it was not enough for the least points."""
        return self._began + self.budget - time.perf_counter()

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.seconds_left <= (0.0 if self.points >= LEAST_POINTS else -self.budget)

    @property
    def seconds_to_next(self) -> float:
        """Seconds until a point is due."""
        return self._last + min(self.budget, self.expected) / POINTS - time.perf_counter()

    def add(self, steps: int, loss: float, metric: float | None, last: bool) -> None:
        """Take what so many steps were on average; send a point where one is due, or they are the last ones."""
        self.steps += steps
        self._since += np.array([1.0, loss, metric or 0.0]) * steps
        if last or self.seconds_to_next <= 0:
            self._send(metric is not None)

    def _send(self, has_metric: bool = False) -> None:
        began = time.perf_counter()
        point = Point(steps=self.steps, seconds=began - self._began)
        steps, *sums = self._since
        if steps:
            point.loss, point.metric = sums[0] / steps, sums[1] / steps if has_metric else None
        if (means := self.evaluate()) is not None:
            point.validation_loss, point.validation_metric = means
        self.emit.append("curve", point)
        self._since, self._last = np.zeros(3), began
        self.points += 1
