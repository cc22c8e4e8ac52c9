"""Every backend, loop and replica count learns the same from the same weights, batches and data."""

import importlib.util

import numpy as np
import pytest
from backends.scenario import play, play_each

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4
STEPS = 10
WORKLOADS = {
    "mnist_cnn": {},
    "mnist_official": {},
    "fashion_cnn": {},
    "shakespeare_lstm": {"sequence_length": 12},
    "weather_gru": {"sequence_length": 60},
}
WAYS = [(backend, loop) for backend in ("tensorflow", "jax", "torch") for loop in ("epoch", "fit")]


def running(losses: list[float]) -> np.ndarray:
    """The running mean of the loss, as `fit` shows it."""
    return np.cumsum(losses) / np.arange(1, len(losses) + 1)


FAULTS = [("adam_epsilon", "mnist_cnn"), ("no_shuffling", "mnist_cnn"), ("replica_sum", "mnist_official")]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Every workload in both loops by backend, played once in one process; on TensorFlow with planted faults, too."""
    known: dict[str, dict[str, dict]] = {}

    def of(backend: str) -> dict[str, dict]:
        needs(backend)
        if backend not in known:
            runs = {
                f"{loop} {name}": {"workload": name, "loop": loop, **asked}
                for loop in ("epoch", "fit")
                for name, asked in WORKLOADS.items()
            }
            if backend == "tensorflow":
                faults = [*FAULTS, ("no_dropout", "mnist_cnn")]
                runs |= {fault: {"workload": name, "fault": fault} for fault, name in faults}
            known[backend] = play_each(tmp_path_factory.mktemp(backend), runs, STEPS, backend=backend)
        return known[backend]

    return of


@pytest.fixture(scope="module")
def learned(played):
    """Results of every workload by backend and loop."""

    def of(backend: str, loop: str) -> dict[str, dict]:
        return {name: played(backend)[f"{loop} {name}"] for name in WORKLOADS}

    return of


@pytest.fixture(scope="module")
def reference(learned) -> dict[str, dict]:
    """What TensorFlow's epoch loop gives of each workload."""
    return learned("tensorflow", "epoch")


def needs(backend: str) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(("backend", "loop"), [way for way in WAYS if way != ("tensorflow", "epoch")])
def test_running_losses_agree(learned, reference, workload, backend, loop):
    result = learned(backend, loop)[workload]
    assert np.abs(running(result["losses"]) - running(reference[workload]["losses"])).max() < TOLERANCE
    assert result["evaluated"][0] == pytest.approx(reference[workload]["evaluated"][0], rel=1e-3)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
@pytest.mark.parametrize("loop", ["epoch", "fit"])
def test_eight_replicas_learn_what_one_learns(reference, tmp_path, backend, loop):
    """With plain gradient descent, whose steps grow with the gradient: Adam's would hide a sum in place of a mean."""
    needs(backend)
    result = play(tmp_path, STEPS, workload="mnist_official", backend=backend, loop=loop, replicas=8)
    assert np.abs(running(result["losses"]) - running(reference["mnist_official"]["losses"])).max() < TOLERANCE


@pytest.mark.parametrize(("fault", "workload"), FAULTS)
def test_a_planted_fault_is_seen_in_the_losses(played, reference, fault, workload):
    losses = played("tensorflow")[fault]["losses"]
    assert np.abs(running(losses) - running(reference[workload]["losses"])).max() > 10 * TOLERANCE


@pytest.mark.parametrize(("backend", "loop"), WAYS)
def test_dropout_changes_the_loss(learned, backend, loop):
    result = learned(backend, loop)["mnist_cnn"]
    assert abs(result["dropped"] - result["losses"][0]) > 10 * TOLERANCE


def test_a_loop_that_forgets_dropout_is_seen(played):
    result = played("tensorflow")["no_dropout"]
    assert result["dropped"] == pytest.approx(result["losses"][0], abs=TOLERANCE)


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("loop", ["epoch", "fit"])
def test_a_run_imports_no_tensorflow(learned, backend, loop):
    modules = learned(backend, loop)["weather_gru"]["modules"]  # the last one
    assert not {"tensorflow", "tensorflow_datasets"} & set(modules)
