"""Every backend, loop and replica count learns the same from the same weights, batches and data.

That holds for the built-in workloads, and for a model with regularisers and `add_loss` as plain `fit` counts them.
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
WORKLOADS = {  # of which some are long
    "mnist_cnn": {},  # dropout
    "fashion_cnn": {},  # batch normalisation
    "weather_gru": {"sequence_length": 60},
    "mnist_official": {},
    "shakespeare_lstm": {"sequence_length": 12},
}
QUICK = {"epoch": ("mnist_cnn", "fashion_cnn", "weather_gru"), "fit": ("mnist_cnn",)}
LONG = {"epoch": ("mnist_official", "shakespeare_lstm"), "fit": ("fashion_cnn", "weather_gru")}
WAYS = [(backend, loop) for backend in BACKENDS for loop in ("epoch", "fit")]
FAULTS = [("adam_epsilon", "epoch mnist_cnn"), ("no_shuffling", "epoch mnist_cnn"), ("replica_sum", "own weights")]


def runs_of(workloads: dict[str, tuple[str, ...]]) -> dict[str, dict]:
    """The built-in workloads in each loop."""
    return {
        f"{loop} {name}": {"workload": name, "loop": loop, **WORKLOADS[name]}
        for loop, names in workloads.items()
        for name in names
    }


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Every run of a backend on so many replicas, played in one process; or the long ones of one replica."""

    def of(backend: str, replicas: int = 1, long: bool = False) -> dict[str, dict]:
        return once(backend, replicas, long)  # `cache` takes a default for another call

    @cache
    def once(backend: str, replicas: int, long: bool) -> dict[str, dict]:
        if backend == "torch":
            require("torch")
        folder = tmp_path_factory.mktemp(f"{backend}{replicas}")
        own, of_weights = model_file(folder), model_file(folder, activities=0.0)
        if long:
            return play_each(folder, runs_of(LONG), STEPS, backend=backend)
        if replicas > 1:
            runs = {loop: {"workload": of_weights, "loop": loop} for loop in ("epoch", "fit")}
            return play_each(folder, runs, STEPS, backend=backend, replicas=replicas)
        runs = runs_of(QUICK)
        runs |= {"own epoch": {"workload": own}, "own fit": {"workload": own, "loop": "fit"}}
        runs |= {"own weights": {"workload": of_weights}}
        if backend == "tensorflow":
            planted = [*FAULTS, ("no_dropout", "epoch mnist_cnn")]
            runs |= {fault: {**runs[run], "fault": fault} for fault, run in planted}
            runs |= {"own without": {"workload": model_file(folder, weights=0.0, activities=0.0)}}
        if backend != "jax":  # an activity's loss is float16, which Keras' `fit` cannot add up
            half = {"workload": of_weights, "precision": "mixed_float16"}
            runs |= {f"half {loop}": {**half, "loop": loop} for loop in ("epoch", "fit")}
        return play_each(folder, runs, STEPS, backend=backend)

    return of


def running(losses: list[float]) -> np.ndarray:
    """The running mean of the loss, as `fit` shows it."""
    return np.cumsum(losses) / np.arange(1, len(losses) + 1)


def apart(result: dict, other: dict) -> float:
    """The largest difference of running losses."""
    return np.abs(running(result["losses"]) - running(other["losses"])).max()


def cases():
    """Each way to run each workload, but for the reference."""
    for workloads, marks in ((QUICK, ()), (LONG, pytest.mark.long)):
        for backend, loop in WAYS:
            for name in workloads[loop]:
                if (backend, loop) != ("tensorflow", "epoch"):
                    yield pytest.param(backend, loop, name, marks=marks)


@pytest.mark.parametrize(("backend", "loop", "workload"), cases())
def test_running_losses_agree(played, backend, loop, workload):
    """With what TensorFlow's epoch loop gives."""
    long = workload in LONG[loop]
    result = played(backend, long=long)[f"{loop} {workload}"]
    reference = played("tensorflow", long=workload in LONG["epoch"])[f"epoch {workload}"]
    assert apart(result, reference) < TOLERANCE
    assert result["evaluated"][0] == pytest.approx(reference["evaluated"][0], rel=1e-3)


@pytest.mark.parametrize(("backend", "loop"), WAYS)
def test_replicas_learn_what_one_learns(played, backend, loop):
    """With plain gradient descent, whose steps grow with the gradient: Adam's would hide a sum in place of a mean.

    A regulariser of weights counts once; an activity's loss is a sum over each replica's share of the batch.
    """
    one, several = played(backend)["own weights"], played(backend, REPLICAS)[loop]
    assert apart(several, one) < TOLERANCE
    assert several["weights"] == pytest.approx(one["weights"], rel=1e-4)


@pytest.mark.parametrize(("fault", "run"), FAULTS)
def test_a_planted_fault_is_seen_in_the_losses(played, fault, run):
    assert apart(played("tensorflow")[fault], played("tensorflow")[run]) > 10 * TOLERANCE


@pytest.mark.parametrize(("backend", "loop"), WAYS)
def test_dropout_changes_the_loss(played, backend, loop):
    result = played(backend)[f"{loop} mnist_cnn"]
    assert abs(result["dropped"] - result["losses"][0]) > 10 * TOLERANCE


def test_a_loop_that_forgets_dropout_is_seen(played):
    result = played("tensorflow")["no_dropout"]
    assert result["dropped"] == pytest.approx(result["losses"][0], abs=TOLERANCE)


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_run_imports_no_tensorflow(played, backend):
    for result in played(backend).values():
        assert not {"tensorflow", "tensorflow_datasets"} & set(result["modules"])


@pytest.mark.parametrize(("backend", "loop"), [way for way in WAYS if way != ("tensorflow", "fit")])
def test_both_loops_of_every_backend_train_on_the_models_own_losses(played, backend, loop):
    result, fitted = played(backend)[f"own {loop}"], played("tensorflow")["own fit"]
    assert apart(result, fitted) < TOLERANCE
    assert result["weights"] == pytest.approx(fitted["weights"], rel=1e-4)
    assert result["evaluated"] == pytest.approx(fitted["evaluated"], rel=1e-3)


def test_the_loss_that_is_reported_holds_the_regulariser(played):
    without, fitted = played("tensorflow")["own without"], played("tensorflow")["own fit"]
    assert fitted["losses"][0] > without["losses"][0] + 1000 * TOLERANCE
    assert fitted["evaluated"][0] > without["evaluated"][0] + 1000 * TOLERANCE


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_a_scaled_loss_in_float16_holds_the_regulariser(played, backend):
    epoch, fit = (played(backend)[f"half {loop}"] for loop in ("epoch", "fit"))
    assert epoch["weights"] == pytest.approx(fit["weights"], rel=1e-2)
    assert epoch["losses"] == pytest.approx(fit["losses"], rel=1e-2)
