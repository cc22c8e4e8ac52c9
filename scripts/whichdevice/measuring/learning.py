"""Learning to the end: epochs from the initial weights, with validation and the recipe's callbacks.

`train.seconds` bounds it: when the time is up, the epoch ends where it is, is validated as usual, and is the last one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.backends.base import Means, TrainingLoop
from whichdevice.measuring.events import Emitter
from whichdevice.records.schema import Epoch, Learning, Request
from whichdevice.workloads.base import TrainingWorkload
from whichdevice.workloads.batch_order import BatchOrder

PROGRESS_SECONDS = 1.0  # between two reports of progress, where an epoch is several calls


@dataclass
class Learner:
    """A loop that learns as its request asks; `step_time` is that of the timed steps, in seconds."""

    loop: TrainingLoop
    workload: TrainingWorkload
    model: Any
    request: Request
    order: BatchOrder
    steps_per_epoch: int
    step_time: float
    folder: Path
    emit: Emitter

    def learn(self) -> list[Epoch]:
        """Train `request.epochs` epochs, or until a callback stops or time is up; each is sent when it is over."""
        import keras

        loop, workload, model, emit = self.loop, self.workload, self.model, self.emit
        loop.reset()
        loop.publish()
        callbacks = keras.callbacks.CallbackList(
            workload.callbacks(self.folder) if self.request.validation else [], model=model, add_history=False
        )
        model.stop_training = False
        callbacks.on_train_begin()
        epochs: list[Epoch] = []
        self._left = self.request.epochs * self.steps_per_epoch
        self._deadline = time.perf_counter() + (self.request.learn_seconds or float("inf"))
        ended = "epochs"
        for number in range(1, self.request.epochs + 1):
            callbacks.on_epoch_begin(number - 1)
            emit.energy_part(f"epoch {number}")
            epochs.append(self._epoch(number))
            emit.energy_part(None)
            loop.publish()
            rate = keras.ops.convert_to_numpy(model.optimizer.learning_rate)  # before a callback changes it
            epochs[-1].learning_rate = float(rate)
            callbacks.on_epoch_end(number - 1, _logs(epochs[-1]))
            loop.adopt()  # a callback may have changed the learning rate
            emit.append("epochs", epochs[-1])
            workload.after_epoch(number, model)
            if model.stop_training:
                ended = "callback"
                break
            if self._left and self._seconds_left <= 0:
                ended = "seconds"
                break
        emit.part("learning", Learning(ended_by=ended))
        callbacks.on_train_end()
        if (best := workload.best_weights()) is not None:
            model.load_weights(best)
            loop.adopt()
        return epochs

    @property
    def _seconds_left(self) -> float:
        return self._deadline - time.perf_counter()

    def _epoch(self, number: int) -> Epoch:
        done, seconds, sums = 0, 0.0, np.zeros(2)
        second = max(1, round(PROGRESS_SECONDS / self.step_time))  # steps of a call
        window = self.steps_per_epoch if self.loop.whole_epochs else second
        self._report(number)
        while True:
            part = self.order.take(self._fitting(min(window, self.steps_per_epoch - done)))
            began = time.perf_counter()
            means = self.loop.run(part)
            took = time.perf_counter() - began
            self.step_time = took / len(part)
            seconds, done = seconds + took, done + len(part)
            self._left -= len(part)
            sums += np.array([means.loss, means.metric or 0.0]) * len(part)
            self._report(number, loss=means.loss, metric=means.metric)
            if done == self.steps_per_epoch or self._seconds_left <= 0:
                break
        epoch = Epoch(epoch=number, seconds=seconds, loss=sums[0] / done)
        epoch.steps = done if done < self.steps_per_epoch else None
        epoch.metric = None if means.metric is None else float(sums[1] / done)
        if self.request.validation:
            epoch.validation_loss, epoch.validation_metric, epoch.validation_seconds = _timed(self.loop.evaluate)
        return epoch

    def _fitting(self, steps: int) -> int:
        """So many steps, or as many as the time left has room for; at least one."""
        return max(1, int(min(steps, self._seconds_left / max(self.step_time, 1e-9))))

    def _report(self, number: int, **values: float | None) -> None:
        counts = {"epoch": number, "epochs": self.request.epochs}
        seconds = min(self._left * self.step_time, max(self._seconds_left, 0.0))
        self.emit.progress("learning", **counts, step_time=self.step_time, seconds_left=seconds, **values)


def _timed(evaluate: Callable[[], Means]) -> tuple[float, float | None, float]:
    began = time.perf_counter()
    means = evaluate()
    return means.loss, means.metric, time.perf_counter() - began


def _logs(epoch: Epoch) -> dict[str, float]:
    named = {
        "loss": epoch.loss,
        "accuracy": epoch.metric,
        "val_loss": epoch.validation_loss,
        "val_accuracy": epoch.validation_metric,
    }
    return {name: value for name, value in named.items() if value is not None}
