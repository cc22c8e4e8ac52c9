"""What a run is refused for: the host's memory, of which a GPU or TPU needs no more than the data's."""

import pytest
from backends.scenario import request_for

from whichdevice.measure.backends import backend_class
from whichdevice.measure.estimated_memory import FRAMEWORK_BYTES, operation_memory, training_memory
from whichdevice.measure.run_end import RefusedError, refuse_what_cannot_fit

DATA = 5e7


def need(kind: str, batch_size: int) -> float:
    return training_memory(10**6, 4e6 * batch_size, request_for(kind=kind), DATA)


MNIST_CNN = 412_778, 517_064_708, 55e6  # weights, bytes between as counted at batch 1024, bytes of data
DECODER = 4_505_088, 293_062_668, 2e6  # the same at batch 8


@pytest.mark.parametrize(
    ("backend", "model", "peak"),
    [
        ("tensorflow", MNIST_CNN, 1.705e9),
        ("jax", MNIST_CNN, 2.778e9),
        ("torch", MNIST_CNN, 2.027e9),
        ("tensorflow", DECODER, 1.577e9),
        ("jax", DECODER, 1.254e9),
        ("torch", DECODER, 0.996e9),
    ],
)
def test_the_estimate_is_one_to_two_times_the_peak_of_a_measured_run(backend, model, peak) -> None:
    """Peaks of the epoch loop in float32 on two cores of an x86 host; the decoder has 4 layers of width 256."""
    parameters, between, data = model
    copies = backend_class(backend).activation_copies
    assert peak < training_memory(parameters, between * copies, request_for(), data) < 2 * peak


@pytest.mark.parametrize("kind", ["gpu", "tpu"])
def test_a_batch_that_no_host_could_hold_is_not_refused_on_a_device(kind: str) -> None:
    assert need(kind, batch_size=10**9) == pytest.approx(FRAMEWORK_BYTES + 2.2 * DATA)
    refuse_what_cannot_fit(need(kind, batch_size=10**9), available=2e9)
    with pytest.raises(RefusedError, match=r"needs about 4400001\.0 GB of memory \(estimate\), this host has 2\.0 GB"):
        refuse_what_cannot_fit(need("cpu", batch_size=10**9), available=2e9)


def test_an_operation_needs_its_operands_on_the_host_and_on_a_cpu_as_often_as_there_are_replicas() -> None:
    assert operation_memory(1e9, request_for(kind="cpu", replicas=2)) == FRAMEWORK_BYTES + 6e9
    assert operation_memory(1e9, request_for(kind="gpu", replicas=2)) == FRAMEWORK_BYTES + 2e9
