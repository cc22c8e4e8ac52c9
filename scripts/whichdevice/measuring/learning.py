"""Learning to the end: epochs from the initial weights, with validation and the recipe's callbacks."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.backends.base import Means, TrainingLoop
from whichdevice.measuring.events import Emitter
from whichdevice.records.request import Request
from whichdevice.records.timings import Epoch
from whichdevice.workloads.base import BatchOrder, TrainingWorkload

PROGRESS_SECONDS = 1.0  # between two reports of progress, where an epoch is several calls


def learn(
    loop: TrainingLoop,
    workload: TrainingWorkload,
    model: Any,
    request: Request,
    order: BatchOrder,
    steps_per_epoch: int,
    step_time: float,
    folder: Path,
    emit: Emitter,
) -> list[Epoch]:
    """Train `request.epochs` epochs, fewer where a callback stops; each is sent as soon as it is over."""
    import keras

    loop.reset()
    loop.publish()
    callbacks = keras.callbacks.CallbackList(
        workload.callbacks(folder) if request.validation else [], model=model, add_history=False
    )
    model.stop_training = False
    callbacks.on_train_begin()
    epochs: list[Epoch] = []
    left = _Countdown(request.epochs * steps_per_epoch, step_time)
    for number in range(1, request.epochs + 1):
        callbacks.on_epoch_begin(number - 1)
        emit.energy_part(f"epoch {number}")
        epochs.append(_epoch(loop, request, order, steps_per_epoch, number, left, emit))
        emit.energy_part(None)
        loop.publish()
        rate = keras.ops.convert_to_numpy(model.optimizer.learning_rate)  # before a callback changes it
        epochs[-1].learning_rate = float(rate)
        callbacks.on_epoch_end(number - 1, _logs(epochs[-1]))
        loop.adopt()  # a callback may have changed the learning rate
        emit.append("epochs", epochs[-1])
        workload.after_epoch(number, model)
        if model.stop_training:
            break
    callbacks.on_train_end()
    if (best := workload.best_weights()) is not None:
        model.load_weights(best)
        loop.adopt()
    return epochs


class _Countdown:
    """Seconds that are left, from the steps still to do and how long the last ones took."""

    def __init__(self, steps: int, step_time: float) -> None:
        self.steps, self.step_time = steps, step_time

    @property
    def seconds(self) -> float:
        return self.steps * self.step_time

    def did(self, steps: int, seconds: float) -> None:
        self.steps -= steps
        self.step_time = seconds / steps


def _epoch(
    loop: TrainingLoop,
    request: Request,
    order: BatchOrder,
    steps_per_epoch: int,
    number: int,
    left: _Countdown,
    emit: Emitter,
) -> Epoch:
    window = steps_per_epoch if loop.whole_epochs else max(1, round(PROGRESS_SECONDS / left.step_time))
    seconds, sums = 0.0, np.zeros(2)
    counts = {"epoch": number, "epochs": request.epochs}
    emit.progress("learning", **counts, step_time=left.step_time, seconds_left=left.seconds)
    for start in range(0, steps_per_epoch, window):
        part = order.take(min(window, steps_per_epoch - start))
        began = time.perf_counter()
        means = loop.run(part)
        took = time.perf_counter() - began
        seconds += took
        left.did(len(part), took)
        sums += np.array([means.loss, means.metric or 0.0]) * len(part)
        emit.progress(
            "learning",
            **counts,
            step_time=left.step_time,
            seconds_left=left.seconds,
            loss=means.loss,
            metric=means.metric,
        )
    epoch = Epoch(epoch=number, seconds=seconds, loss=sums[0] / steps_per_epoch)
    epoch.metric = None if means.metric is None else float(sums[1] / steps_per_epoch)
    if request.validation:
        epoch.validation_loss, epoch.validation_metric, epoch.validation_seconds = _timed(loop.evaluate)
    return epoch


def _timed(evaluate: Callable[[], Means | None]) -> tuple[float | None, float | None, float | None]:
    began = time.perf_counter()
    means = evaluate()
    if means is None:
        return None, None, None
    return means.loss, means.metric, time.perf_counter() - began


def _logs(epoch: Epoch) -> dict[str, float]:
    named = {
        "loss": epoch.loss,
        "accuracy": epoch.metric,
        "val_loss": epoch.validation_loss,
        "val_accuracy": epoch.validation_metric,
    }
    return {name: value for name, value in named.items() if value is not None}
