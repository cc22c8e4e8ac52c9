"""Every backend and replica count learns the same from the same weights, batches and data.

That holds for the built-in workloads, and for a model with regularisers and `add_loss` as Keras itself counts them.
"""

from functools import cache

import numpy as np
import pytest
from backends.scenario import model_file, play_each
from needs import require

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4
STEPS, REPLICAS = 6, 2
BACKENDS = ("tensorflow", "jax", "torch")
LENGTHS = {"weather_gru": 60, "shakespeare_lstm": 12}
SMALL = ("mnist_cnn", "fashion_cnn", "weather_gru")  # of few units: dropout, batch normalisation, recurrence
WHOLE = (*SMALL, "mnist_official", "shakespeare_lstm")
FAULTS = [("adam_epsilon", "mnist_cnn"), ("no_shuffling", "mnist_cnn"), ("replica_sum", "own weights")]


def runs_of(names: tuple[str, ...], is_small: bool) -> dict[str, dict]:
    """Built-in workloads."""
    return {name: {"workload": name, "sequence_length": LENGTHS.get(name), "is_small": is_small} for name in names}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Every run of a backend on so many replicas, played in one process; or the whole workloads of one replica."""

    def of(backend: str, replicas: int = 1, whole: bool = False) -> dict[str, dict]:
        return once(backend, replicas, whole)  # `cache` takes a default for another call

    @cache
    def once(backend: str, replicas: int, whole: bool) -> dict[str, dict]:
        if backend == "torch":
            require("torch")
        folder = tmp_path_factory.mktemp(f"{backend}{replicas}")
        own, of_weights = {"workload": model_file(folder)}, {"workload": model_file(folder, activities=0.0)}
        if whole:
            return play_each(folder, runs_of(WHOLE, is_small=False), STEPS, backend=backend)
        if replicas > 1:
            return play_each(folder, {"own weights": of_weights}, STEPS, backend=backend, replicas=replicas)
        runs = {"own": own, "own by Keras": {**own, "by_keras": True}, "own weights": of_weights}
        runs |= runs_of(SMALL, is_small=True)
        if backend == "tensorflow":
            planted = [*FAULTS, ("no_dropout", "mnist_cnn")]
            runs |= {fault: {**runs[run], "fault": fault} for fault, run in planted}
            runs |= {"own without": {"workload": model_file(folder, weights=0.0, activities=0.0)}}
        if backend != "jax":  # an activity's loss is float16, which Keras' own step cannot add up
            half = {**of_weights, "precision": "mixed_float16"}
            runs |= {"half": half, "half by Keras": {**half, "by_keras": True}}
        return play_each(folder, runs, STEPS, backend=backend)

    return of


def running(losses: list[float]) -> np.ndarray:
    """The running mean of the loss, as Keras shows it."""
    return np.cumsum(losses) / np.arange(1, len(losses) + 1)


def apart(result: dict, other: dict) -> float:
    """The largest difference of running losses."""
    return np.abs(running(result["losses"]) - running(other["losses"])).max()


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize(
    ("workload", "whole"),
    [(name, False) for name in SMALL] + [pytest.param(name, True, marks=pytest.mark.long) for name in WHOLE],
)
def test_running_losses_agree(played, backend, workload, whole):
    result, reference = (played(name, whole=whole)[workload] for name in (backend, "tensorflow"))
    assert apart(result, reference) < TOLERANCE
    assert result["evaluated"][0] == pytest.approx(reference["evaluated"][0], rel=1e-3)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_replicas_learn_what_one_learns(played, backend):
    """With plain gradient descent, whose steps grow with the gradient: Adam's would hide a sum in place of a mean.

    A regulariser of weights counts once; an activity's loss is a sum over each replica's share of the batch.
    """
    one, several = played(backend)["own weights"], played(backend, REPLICAS)["own weights"]
    assert apart(several, one) < TOLERANCE
    assert several["weights"] == pytest.approx(one["weights"], rel=1e-4)


@pytest.mark.parametrize(("fault", "run"), FAULTS)
def test_a_planted_fault_is_seen_in_the_losses(played, fault, run):
    assert apart(played("tensorflow")[fault], played("tensorflow")[run]) > 10 * TOLERANCE


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_changes_the_loss(played, backend):
    result = played(backend)["mnist_cnn"]
    assert abs(result["dropped"] - result["losses"][0]) > 10 * TOLERANCE


def test_a_loop_that_forgets_dropout_is_seen(played):
    result = played("tensorflow")["no_dropout"]
    assert result["dropped"] == pytest.approx(result["losses"][0], abs=TOLERANCE)


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_run_imports_no_tensorflow(played, backend):
    for result in played(backend).values():
        assert not {"tensorflow", "tensorflow_datasets"} & set(result["modules"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_trains_as_keras_itself_does_with_the_models_own_losses(played, backend):
    result, by_keras = played(backend)["own"], played(backend)["own by Keras"]
    assert apart(result, by_keras) < TOLERANCE
    assert result["weights"] == pytest.approx(by_keras["weights"], rel=1e-4)
    assert result["evaluated"] == pytest.approx(by_keras["evaluated"], rel=1e-3)


def test_the_loss_that_is_reported_holds_the_regulariser(played):
    without, own = played("tensorflow")["own without"], played("tensorflow")["own"]
    assert own["losses"][0] > without["losses"][0] + 1000 * TOLERANCE
    assert own["evaluated"][0] > without["evaluated"][0] + 1000 * TOLERANCE


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_a_scaled_loss_in_float16_holds_the_regulariser(played, backend):
    result, by_keras = played(backend)["half"], played(backend)["half by Keras"]
    assert result["weights"] == pytest.approx(by_keras["weights"], rel=1e-2)
    assert result["losses"] == pytest.approx(by_keras["losses"], rel=1e-2)
