"""Every backend, loop and replica count learns the same from the same weights, batches and data."""

import importlib.util

import numpy as np
import pytest
from backends.scenario import play

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


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Losses of TensorFlow's epoch loop, each workload once."""
    known: dict[str, dict] = {}

    def of(workload: str) -> dict:
        if workload not in known:
            known[workload] = play(tmp_path_factory.mktemp(workload), STEPS, workload=workload, **WORKLOADS[workload])
        return known[workload]

    return of


def played(folder, workload: str, **request) -> dict:
    if importlib.util.find_spec(request["backend"]) is None:
        pytest.skip(f"{request['backend']} is not installed")
    return play(folder, STEPS, workload=workload, **WORKLOADS[workload], **request)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(("backend", "loop"), [way for way in WAYS if way != ("tensorflow", "epoch")])
def test_running_losses_agree(reference, tmp_path, workload, backend, loop):
    result = played(tmp_path, workload, backend=backend, loop=loop)
    assert np.abs(running(result["losses"]) - running(reference(workload)["losses"])).max() < TOLERANCE
    assert result["evaluated"][0] == pytest.approx(reference(workload)["evaluated"][0], rel=1e-3)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
@pytest.mark.parametrize("loop", ["epoch", "fit"])
def test_eight_replicas_learn_what_one_learns(reference, tmp_path, backend, loop):
    """With plain gradient descent, whose steps grow with the gradient: Adam's would hide a sum in place of a mean."""
    result = played(tmp_path, "mnist_official", backend=backend, loop=loop, replicas=8)
    assert np.abs(running(result["losses"]) - running(reference("mnist_official")["losses"])).max() < TOLERANCE


@pytest.mark.parametrize(
    ("fault", "workload"),
    [("adam_epsilon", "mnist_cnn"), ("no_shuffling", "mnist_cnn"), ("replica_sum", "mnist_official")],
)
def test_a_planted_fault_is_seen_in_the_losses(reference, tmp_path, fault, workload):
    losses = play(tmp_path, STEPS, fault=fault, workload=workload)["losses"]
    assert np.abs(running(losses) - running(reference(workload)["losses"])).max() > 10 * TOLERANCE


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("loop", ["epoch", "fit"])
def test_a_run_imports_no_tensorflow(tmp_path, backend, loop):
    modules = played(tmp_path, "mnist_official", backend=backend, loop=loop)["modules"]
    assert not {"tensorflow", "tensorflow_datasets"} & set(modules)
