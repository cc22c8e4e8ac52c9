"""Run a training workload: load, build, cold and steady steps, learning to the end, artefacts.

Learning runs epochs from the initial weights, with validation and the recipe's callbacks. Predictions of the trained
model are kept with its record, so that an export can be compared with it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.base.events import Emitter
from whichdevice.measure.backends.base import Backend, Means, TrainingLoop
from whichdevice.measure.backends.number_formats import product_format
from whichdevice.measure.estimated_memory import training_memory
from whichdevice.measure.input_pipeline import send_pipeline
from whichdevice.measure.job import Job, StepWork, timed_call
from whichdevice.measure.record import Epoch, Learning, Point, Request, WorkloadFacts
from whichdevice.measure.timing import time_steps
from whichdevice.models.batch_order import BatchOrder
from whichdevice.models.shapes import leaves
from whichdevice.models.without_keras import NativeModel
from whichdevice.models.workloads.base import Split, TrainingWorkload

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


class WatchedSteps:
    """Steps whose losses are looked at; raises StudyError where the first one's is no number: it would not learn."""

    def __init__(self, loop: TrainingLoop, order: BatchOrder) -> None:
        self._loop, self._order = loop, order
        self._done = 0
        self.lost: int | None = None  # steps after which the loss was no number

    def prepare(self, steps: int) -> Callable[[], None]:
        """Return what runs the next `steps` steps."""
        return partial(self._run, self._order.take(steps))

    def _run(self, batches: np.ndarray) -> None:
        loss = self._loop.run(batches).loss
        is_first, self._done = not self._done, self._done + len(batches)
        if isfinite(loss) or self.lost is not None:
            return
        if is_first:
            raise StudyError(
                f"the loss is {loss} at the first step: look at the loss, the data and the initial weights"
            )
        self.lost = self._done


FLOAT_FORMATS = ("float32", "bfloat16", "float16", "float64")


def own_formats(model: Any, precision: str) -> str | None:
    """Return, in words, which layers compute in another number format than `precision` asks for; None: none does.

    A layer in float32 among shorter ones counts only where it has weights and is no output: those are usual. Models of
    PyTorch and JAX do not say.
    """
    if isinstance(model, NativeModel):
        return None
    asked = product_format("float32" if precision == "tf32" else precision)
    layers: dict[str, list[str]] = {}
    outputs = set(getattr(model, "output_names", ()))
    for layer in _leaf_layers(model):
        layer_format = str(layer.compute_dtype)
        usual = layer_format == "float32" and asked != "float32" and (not layer.weights or layer.name in outputs)
        if layer_format != asked and layer_format in FLOAT_FORMATS and not usual:
            layers.setdefault(layer_format, []).append(layer.name)
    parts = [
        f"{len(names)} layers in {layer_format} ({', '.join(names[:2])}{', …' * (len(names) > 2)})"
        for layer_format, names in layers.items()
    ]
    return f"{'; '.join(parts)}, not in {asked}" if parts else None


def _leaf_layers(model: Any) -> list[Any]:
    import keras

    layers, waiting = [], list(model.layers)
    while waiting:
        layer = waiting.pop(0)
        if isinstance(layer, keras.Model):
            waiting += layer.layers
        elif not isinstance(layer, keras.layers.InputLayer):
            layers.append(layer)
    return layers


def workload_facts(
    backend: Backend,
    workload: TrainingWorkload,
    request: Request,
    model: Any,
    train: Split,
    validation: Split,
    work: StepWork,
) -> WorkloadFacts:
    """Return the facts of training at the request's batch size."""
    facts = model_facts(workload, request, model, work)
    facts.training_examples, facts.validation_examples = train.examples, validation.examples
    facts.steps_per_epoch = workload.steps_per_epoch(train.examples, request.steps_per_epoch)
    data_bytes, between = train.nbytes + validation.nbytes, work.between * backend.activation_copies
    facts.estimated_memory = training_memory(facts.parameters, between, request, data_bytes)
    facts.metric, facts.higher_is_better = workload.metric, workload.higher_is_better
    return facts


def model_facts(workload: TrainingWorkload, request: Request, model: Any, work: StepWork) -> WorkloadFacts:
    """Return the facts of a model, trained or not, and of its step."""
    remark = own_formats(model, request.precision)
    parameters, trainable = _sizes(model)
    return WorkloadFacts(
        unit=workload.unit,
        input_shape=[request.batch_size, *(size or 1 for size in leaves(workload.example(model))[0].shape)],
        parameters=parameters,
        trainable_parameters=trainable,
        flops_per_step=work.operations,
        flops_counted=work.counted,
        bytes_per_step=work.nbytes,
        remarks=[] if remark is None else [remark],
    )


def _sizes(model: Any) -> tuple[int, int]:
    """Return how many weights and statistics a model has, and how many trained ones."""
    if isinstance(model, NativeModel):
        return model.sizes()
    return model.count_params(), sum(prod(weight.shape) for weight in model.trainable_weights)


FILE = "examples.npz"
KEPT_EXAMPLES = 32  # whose predictions are kept
PROGRESS_SECONDS = 1.0  # between two reports of progress, where an epoch is several calls


@dataclass
class Learner:
    """A loop that learns as its request asks; `step_time` is of the timed steps, in seconds."""

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
        loop, workload, model, emit = self.loop, self.workload, self.model, self.emit
        loop.reset()
        loop.publish()
        chosen = workload.callbacks(self.folder) if self.request.validation else []
        callbacks = _callbacks(chosen, model)
        model.stop_training = False
        callbacks.on_train_begin()
        epochs: list[Epoch] = []
        self._left = self.request.epochs * self.steps_per_epoch
        self._curve = self._begun_curve()
        ended = "epochs"
        for number in range(1, self.request.epochs + 1):
            callbacks.on_epoch_begin(number - 1)
            emit.energy_part(f"epoch {number}")
            epochs.append(self._epoch(number))
            emit.energy_part(None)
            loop.publish()
            epochs[-1].learning_rate = _rate(model)  # before a callback changes it
            callbacks.on_epoch_end(number - 1, _logs(epochs[-1]))
            loop.adopt()  # a callback may have changed the learning rate
            emit.append("epochs", epochs[-1])
            if model.stop_training:
                ended = "callback"
                break
            if self._left and self._is_over:
                ended = "seconds"
                break
        emit.part("learning", Learning(ended_by=ended))
        callbacks.on_train_end()
        best = workload.best_weights()
        if best is not None:
            model.load_weights(best)
            loop.adopt()
        return epochs

    def _begun_curve(self) -> LearningCurve | None:
        if self.request.learn_seconds is None:
            return None
        expected = self._left * self.step_time
        curve = LearningCurve(self.loop.evaluate, self.emit, self.request.learn_seconds, expected)
        curve.begin()
        return curve

    @property
    def _is_over(self) -> bool:
        return self._curve is not None and self._curve.is_over

    def _epoch(self, number: int) -> Epoch:
        done, seconds, sums = 0, 0.0, np.zeros(2)
        second = max(1, round(PROGRESS_SECONDS / self.step_time))  # steps of a call
        self._report(number)
        while True:
            part = self.order.take(self._fitting(min(second, self.steps_per_epoch - done)))
            began = time.perf_counter()
            means = self.loop.run(part)
            took = time.perf_counter() - began
            self.step_time = took / len(part)
            seconds, done = seconds + took, done + len(part)
            self._left -= len(part)
            sums += np.array([means.loss, means.metric or 0.0]) * len(part)
            self._report(number, loss=means.loss, metric=means.metric)
            if self._curve is not None:
                self._curve.add(len(part), *means, last=not self._left or self._is_over)
            if done == self.steps_per_epoch or self._is_over:
                break
        epoch = Epoch(epoch=number, seconds=seconds, loss=sums[0] / done)
        epoch.steps = done if done < self.steps_per_epoch else None
        epoch.metric = None if means.metric is None else float(sums[1] / done)
        if self.request.validation:
            means, seconds = timed_call(self.loop.evaluate)
            if means is not None:
                epoch.validation_loss, epoch.validation_metric = means
                epoch.validation_seconds = seconds
        return epoch

    def _fitting(self, steps: int) -> int:
        """Return `steps`, or as many as the time to the next point of the curve has room for; at least one."""
        if self._curve is None:
            return steps
        seconds = min(self._curve.seconds_left, self._curve.seconds_to_next)
        return max(1, int(min(steps, seconds / max(self.step_time, 1e-9))))

    def _report(self, number: int, **values: float | None) -> None:
        counts = {"epoch": number, "epochs": self.request.epochs}
        seconds = self._left * self.step_time
        if self._curve is not None:
            seconds = min(seconds, max(self._curve.seconds_left, 0.0))
        self.emit.progress("learning", **counts, step_time=self.step_time, seconds_left=seconds, **values)


class _NoCallbacks:
    """Stands for Keras' list of callbacks where a model is not Keras'."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def _callbacks(chosen: list[Any], model: Any) -> Any:
    if isinstance(model, NativeModel):
        return _NoCallbacks()
    import keras

    return keras.callbacks.CallbackList(chosen, model=model, add_history=False)


def _rate(model: Any) -> float | None:
    if isinstance(model, NativeModel):
        return model.learning_rate()
    import keras

    return float(keras.ops.convert_to_numpy(model.optimizer.learning_rate))


def _logs(epoch: Epoch) -> dict[str, float]:
    named = {
        "loss": epoch.loss,
        "accuracy": epoch.metric,
        "val_loss": epoch.validation_loss,
        "val_accuracy": epoch.validation_metric,
    }
    return {name: value for name, value in named.items() if value is not None}


def run_training(job: Job) -> Callable[[], None]:
    """Measure and send everything but the end; artefacts go to the job's folder.

    Return what times the input pipeline, in another process, once the run's memory is known.
    """
    backend, workload, request, emit, folder = job.backend, job.workload, job.request, job.emit, job.folder
    train, validation, model, load, build = job.load_and_build()
    facts = workload_facts(backend, workload, request, model, train, validation, job.work)
    job.announce(facts)
    loop, place = timed_call(lambda: backend.training_loop(workload, model, train, validation))
    workload.check_options()
    emit.part("cold", {"load": load + place, "build": build})

    order = workload.order(train.examples, request.seed)
    watched = WatchedSteps(loop, order)
    steady = time_steps(watched.prepare, request, request.batch_size, emit, facts.steps_per_epoch)
    if watched.lost is not None:
        lost = f"the loss is no number after {watched.lost} steps: these are times of a model that learns nothing"
        emit.part("workload", {"remarks": [*facts.remarks, lost]})
    if request.learn:
        fresh, step_time = workload.order(train.examples, request.seed), steady.seconds / steady.steps
        learner = Learner(loop, workload, model, request, fresh, facts.steps_per_epoch, step_time, folder, emit)
        epochs = learner.learn()
        emit.part("results", _final_results(epochs, workload, request))
        _keep_artefacts(learner, validation)
    return partial(send_pipeline, workload, request, emit)


def best_epoch(epochs: Sequence[Epoch]) -> Epoch:
    """The first one with the lowest validation loss."""
    losses = [np.inf if epoch.validation_loss is None else epoch.validation_loss for epoch in epochs]
    return epochs[int(np.argmin(np.nan_to_num(losses, nan=np.inf, posinf=np.inf)))]


def _final_results(epochs: list[Epoch], workload: TrainingWorkload, request: Request) -> dict[str, Any]:
    """Return what the kept model reaches: the last epoch's, or the best one's where callbacks keep the best."""
    kept = epochs[-1]
    if workload.best_weights() is not None and request.validation:
        kept = best_epoch(epochs)
    named: dict[str, Any] = {"epoch": kept.epoch, "loss": kept.loss, "validation_loss": kept.validation_loss}
    if workload.metric is not None:
        named |= {f"training_{workload.metric}": kept.metric, f"validation_{workload.metric}": kept.validation_metric}
    return {name: value for name, value in named.items() if value is not None}


def _keep_artefacts(learner: Learner, validation: Split) -> None:
    """Keep the trained weights, and some predictions by which an export is checked."""
    workload, folder, emit = learner.workload, learner.folder, learner.emit
    emit.progress("predicting")
    files = {"weights": workload.weights_file, "examples": FILE}
    index = np.arange(min(validation.examples, KEPT_EXAMPLES), dtype=np.int32)
    predictions = learner.loop.predict(index).astype(np.float32)
    np.savez_compressed(folder / FILE, index=index, predictions=predictions)
    learner.model.save_weights(folder / files["weights"])
    if (best := workload.best_weights()) is not None:
        best.unlink()  # the same weights, loaded after learning
    emit.part("artefacts", files)
