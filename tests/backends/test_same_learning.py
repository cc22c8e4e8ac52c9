"""Every backend, loop and replica count learns the same from the same weights, batches and data.

That holds for the built-in workloads, and for a model with regularisers and `add_loss` as plain `fit` counts them.
"""

import importlib.util
from functools import cache

import numpy as np
import pytest
from backends.scenario import model_file, play_each

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4
STEPS = 10
BACKENDS = ("tensorflow", "jax", "torch")
WORKLOADS = {
    "mnist_cnn": {},
    "mnist_official": {},
    "fashion_cnn": {},
    "shakespeare_lstm": {"sequence_length": 12},
    "weather_gru": {"sequence_length": 60},
}
FITTED = (
    "mnist_cnn",
    "fashion_cnn",
    "weather_gru",
)  # in plain `fit` too: dropout, batch normalisation, a recurrent net
WAYS = [(backend, loop) for backend in BACKENDS for loop in ("epoch", "fit")]
FAULTS = [("adam_epsilon", "mnist_cnn"), ("no_shuffling", "mnist_cnn"), ("replica_sum", "mnist_official")]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Every run of a backend on so many replicas, played in one process."""

    @cache
    def of(backend: str, replicas: int = 1) -> dict[str, dict]:
        if importlib.util.find_spec(backend) is None:
            pytest.skip(f"{backend} is not installed")
        folder = tmp_path_factory.mktemp(f"{backend}{replicas}")
        own, of_weights = model_file(folder), model_file(folder, activities=0.0)
        if replicas > 1:
            runs = {
                "epoch": {"workload": "mnist_official"},
                "own": {"workload": of_weights},
                "fit": {"workload": "mnist_official", "loop": "fit"},
            }
            return play_each(folder, runs, STEPS, backend=backend, replicas=replicas)
        runs = {f"epoch {name}": {"workload": name, **asked} for name, asked in WORKLOADS.items()}
        runs |= {f"fit {name}": {"workload": name, "loop": "fit", **WORKLOADS[name]} for name in FITTED}
        runs |= {"own epoch": {"workload": own}, "own fit": {"workload": own, "loop": "fit"}}
        runs |= {"own weights": {"workload": of_weights}}
        if backend == "tensorflow":
            runs |= {
                fault: {"workload": name, "fault": fault} for fault, name in [*FAULTS, ("no_dropout", "mnist_cnn")]
            }
            runs |= {"own without": {"workload": model_file(folder, weights=0.0, activities=0.0)}}
        if backend != "jax":  # an activity's loss is float16, which Keras' `fit` cannot add up
            half = {"workload": of_weights, "precision": "mixed_float16"}
            runs |= {f"half {loop}": {**half, "loop": loop} for loop in ("epoch", "fit")}
        return play_each(folder, runs, STEPS, backend=backend)

    return of


@pytest.fixture(scope="module")
def reference(played) -> dict[str, dict]:
    """What TensorFlow's epoch loop gives of each workload, and its plain `fit` of the model with losses of its own."""
    found = played("tensorflow")
    return {name: found[f"epoch {name}"] for name in WORKLOADS} | {"own": found["own fit"]}


def running(losses: list[float]) -> np.ndarray:
    """The running mean of the loss, as `fit` shows it."""
    return np.cumsum(losses) / np.arange(1, len(losses) + 1)


def apart(result: dict, other: dict) -> float:
    """The largest difference of running losses."""
    return np.abs(running(result["losses"]) - running(other["losses"])).max()


@pytest.mark.parametrize(
    ("backend", "loop", "workload"),
    [
        (backend, loop, name)
        for backend, loop in WAYS
        for name in (FITTED if loop == "fit" else WORKLOADS)
        if (backend, loop) != ("tensorflow", "epoch")
    ],
)
def test_running_losses_agree(played, reference, backend, loop, workload):
    result = played(backend)[f"{loop} {workload}"]
    assert apart(result, reference[workload]) < TOLERANCE
    assert result["evaluated"][0] == pytest.approx(reference[workload]["evaluated"][0], rel=1e-3)


@pytest.mark.parametrize(("backend", "loop"), WAYS)
def test_eight_replicas_learn_what_one_learns(played, reference, backend, loop):
    """With plain gradient descent, whose steps grow with the gradient: Adam's would hide a sum in place of a mean."""
    assert apart(played(backend, 8)[loop], reference["mnist_official"]) < TOLERANCE


@pytest.mark.parametrize(("fault", "workload"), FAULTS)
def test_a_planted_fault_is_seen_in_the_losses(played, reference, fault, workload):
    assert apart(played("tensorflow")[fault], reference[workload]) > 10 * TOLERANCE


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
def test_both_loops_of_every_backend_train_on_the_models_own_losses(played, reference, backend, loop):
    result, fitted = played(backend)[f"own {loop}"], reference["own"]
    assert apart(result, fitted) < TOLERANCE
    assert result["weights"] == pytest.approx(fitted["weights"], rel=1e-4)
    assert result["evaluated"] == pytest.approx(fitted["evaluated"], rel=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_replicas_count_a_regulariser_once(played, backend):
    """Of weights alone: an activity's loss is a sum over each replica's share of the batch."""
    one, eight = played(backend)["own weights"], played(backend, 8)["own"]
    assert apart(eight, one) < TOLERANCE
    assert eight["weights"] == pytest.approx(one["weights"], rel=1e-4)


def test_the_loss_that_is_reported_holds_the_regulariser(played, reference):
    without, fitted = played("tensorflow")["own without"], reference["own"]
    assert fitted["losses"][0] > without["losses"][0] + 1000 * TOLERANCE
    assert fitted["evaluated"][0] > without["evaluated"][0] + 1000 * TOLERANCE


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_a_scaled_loss_in_float16_holds_the_regulariser(played, backend):
    epoch, fit = (played(backend)[f"half {loop}"] for loop in ("epoch", "fit"))
    assert epoch["weights"] == pytest.approx(fit["weights"], rel=1e-2)
    assert epoch["losses"] == pytest.approx(fit["losses"], rel=1e-2)
