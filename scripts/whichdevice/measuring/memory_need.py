"""How much host memory a run will need, estimated before it starts, so that what cannot fit is refused."""

from whichdevice.workloads.costs import Costs

FRAMEWORK_BYTES = 900e6  # a started TensorFlow with Keras
SLACK = 1.1  # allocator and scratch buffers


def operation_memory(bytes_per_step: float) -> float:
    """Bytes that a single operation needs: its operands in float32, placed ones, and the result. An estimate."""
    return FRAMEWORK_BYTES + 3 * bytes_per_step


def estimated_memory(costs: Costs, batch_size: int, precision: str, data_bytes: float) -> float:
    """Bytes: framework, data (mapped file and placed copy), weights with optimiser, activations with gradients.

    An estimate, meant to be right within a third.
    """
    width = 2 if precision.endswith("float16") and precision.startswith("mixed") else 4
    weights = costs.parameters * 4 * 4
    activations = costs.activations * batch_size * width
    return FRAMEWORK_BYTES + SLACK * (2 * data_bytes + weights + activations)
