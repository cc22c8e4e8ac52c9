"""Learning to the end: callbacks act on what was validated, and each epoch says what it was trained with."""

import io
import json
from collections.abc import Iterable
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from backends import scenario

from whichdevice.base.events import Emitter
from whichdevice.measure.backends import backend_class
from whichdevice.measure.backends.base import Means, TrainingLoop
from whichdevice.measure.record import Request
from whichdevice.measure.training_run import Learner
from whichdevice.models.batch_order import RandomDraws
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

BATCH, LENGTH, HOURS = 4, 60, 2000
RATE = 1e-3  # the first rate of the recipe


def request_for(epochs: int, validation: bool = True, seconds: float | None = None) -> Request:
    return scenario.request_for(
        "weather_gru", backend="jax", batch_size=BATCH, sequence_length=LENGTH, epochs=epochs, steps_per_epoch=3,
        validation=validation, learn_seconds=seconds, dataset="weather_denmark", source="standin",
    )  # fmt: skip


class Scripted(TrainingLoop):
    """Validation losses as told; the model's one weight counts the steps, `rates` holds each step's learning rate."""

    def __init__(self, losses: Iterable[float]) -> None:
        import keras

        self.model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
        self.model.compile(optimizer=keras.optimizers.RMSprop(RATE))
        self.losses, self.rates, self.steps = iter(losses), [], 0

    def run(self, batches: np.ndarray) -> Means:
        self.steps += len(batches)
        self.rates += [float(self.model.optimizer.learning_rate)] * len(batches)
        return Means(1.0 / self.steps, None)

    def reset(self) -> None:
        self.steps = 0

    def evaluate(self) -> Means:
        return Means(next(self.losses), None)

    def predict(self, index: np.ndarray) -> np.ndarray:
        raise AssertionError("learning predicts nothing")

    def adopt(self):
        pass

    def publish(self) -> None:
        self.model.set_weights([np.full((1, 1), self.steps, np.float32)])

    @property
    def weight(self) -> float:
        return float(self.model.get_weights()[0].item())


def learned(
    loop: Scripted, folder: Path, epochs: int, validation=True, stream: io.StringIO | None = None, seconds=None
):
    workload = Model.read("weather_gru").workload(Options(BATCH, sequence_length=LENGTH))
    order = RandomDraws(100, BATCH, 1)
    emit = Emitter(stream or io.StringIO())
    request = request_for(epochs, validation, seconds)
    return Learner(loop, workload, loop.model, request, order, 3, 1.0, folder, emit).learn()


def test_the_best_weights_come_back(tmp_path):
    loop = Scripted([1.0, 0.5, 0.7, 0.8])
    learned(loop, tmp_path, epochs=4)
    assert loop.steps == 12
    assert loop.weight == 6  # as after the second epoch of three steps


def test_the_energy_of_each_epoch_holds_its_validation_and_nothing_that_follows(tmp_path):
    stream = io.StringIO()
    learned(Scripted([1.0, 0.5]), tmp_path, epochs=2, stream=stream)
    messages = [json.loads(line) for line in stream.getvalue().splitlines()]
    parts = [message["part"] for message in messages if message["event"] == "energy"]
    assert parts == ["epoch 1", None, "epoch 2", None]
    order = [message["event"] for message in messages if message["event"] in ("energy", "append")]
    assert order == ["energy", "energy", "append"] * 2


class Called(Scripted):
    """Keeps how many steps each call of `run` had, and how many lines were sent before the first."""

    def __init__(self, losses: list[float], stream: io.StringIO) -> None:
        super().__init__(losses)
        self.stream, self.calls, self.before = stream, [], ""

    def run(self, batches: np.ndarray) -> Means:
        self.before = self.before or self.stream.getvalue()
        self.calls.append(len(batches))
        return super().run(batches)


def test_progress_is_told_once_a_second(tmp_path):
    stream = io.StringIO()
    loop = Called([1.0], stream)
    learned(loop, tmp_path, epochs=1, stream=stream)  # a step is said to take a second
    assert loop.calls == [1, 1, 1]


class Clocked(Scripted):
    """A step takes a second of a clock of its own."""

    def __init__(self, losses: Iterable[float], monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(losses)
        self.now = 0.0
        clock = SimpleNamespace(perf_counter=lambda: self.now)
        monkeypatch.setattr("whichdevice.measure.training_run.time", clock)

    def run(self, batches: np.ndarray) -> Means:
        self.now += len(batches)
        return super().run(batches)


def ended_by(stream: io.StringIO) -> str:
    messages = map(json.loads, stream.getvalue().splitlines())
    return next(message["value"]["ended_by"] for message in messages if message.get("place") == "learning")


def appended(stream: io.StringIO, place: str) -> list[dict]:
    messages = map(json.loads, stream.getvalue().splitlines())
    return [message["value"] for message in messages if message.get("place") == place and message["event"] == "append"]


@pytest.mark.parametrize(("seconds", "steps"), [(40.5, 41), (4.5, 9)])
def test_the_time_budget_ends_an_epoch_where_it_is_once_there_are_points_enough(tmp_path, monkeypatch, seconds, steps):
    stream, loop = io.StringIO(), Clocked((1.0 / number for number in count(1)), monkeypatch)
    epochs = learned(loop, tmp_path, epochs=20, seconds=seconds, stream=stream)
    assert (len(epochs) - 1) * 3 + (epochs[-1].steps or 3) == steps and ended_by(stream) == "seconds"


def test_learning_with_a_time_budget_has_a_curve_of_ten_points_or_more(tmp_path, monkeypatch):
    stream, loop = io.StringIO(), Clocked((1.0 / number for number in count(1)), monkeypatch)
    learned(loop, tmp_path, epochs=20, seconds=40.5, stream=stream)
    points = appended(stream, "curve")
    assert 10 <= len(points) <= 16 and points[0]["steps"] == 0 and points[0]["loss"] is None
    assert [point["steps"] for point in points] == sorted({point["steps"] for point in points})
    for before, point in pairwise(points):
        assert point["loss"] == pytest.approx(
            np.mean([1.0 / step for step in range(before["steps"] + 1, point["steps"] + 1)]), rel=0.3
        )
    assert points[-1]["steps"] == loop.steps


def test_learning_starts_anew_whatever_was_timed_before(tmp_path):
    loop = Scripted([1.0])
    loop.run(np.zeros((7, BATCH), np.int32))
    learned(loop, tmp_path, epochs=1)
    assert loop.weight == 3


def test_a_real_run_is_validated_on_every_held_out_hour(tmp_path):
    """The weather GRU: the best epoch's loss is that of the weights that came back."""
    request = request_for(epochs=2)
    backend = backend_class(request.backend)(request, threads=2)
    backend.start()
    backend.initialise()
    workload = Model.read("weather_gru").workload(Options(BATCH, sequence_length=LENGTH))
    random = np.random.default_rng(0)
    signals = random.normal(size=(HOURS, 20)).astype(np.float32)
    train, validation = workload.splits({"signals": signals, "times": np.arange(HOURS) * 3600})
    model = workload.model()
    loop = backend.training_loop(workload, model, train, validation)
    order = workload.order(train.examples, 1)
    epochs = Learner(loop, workload, model, request, order, 3, 0.1, tmp_path, Emitter(io.StringIO())).learn()

    held_out = validation.arrays["inputs"]
    assert held_out.shape == (1, HOURS - 24 - int(0.9 * (HOURS - 24)), 20)
    error = np.square(model.predict(held_out, verbose=0) - validation.arrays["targets"])
    best = min(epoch.validation_loss for epoch in epochs)
    assert best == pytest.approx(error[:, 50:].mean(), rel=1e-4)
    assert epochs[0].validation_loss != epochs[1].validation_loss
    assert [epoch.learning_rate for epoch in epochs] == pytest.approx([RATE, RATE])
