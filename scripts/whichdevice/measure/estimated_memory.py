"""How much host memory a run will need, estimated before it starts, so that what cannot fit is refused.

A GPU or TPU keeps weights and activations in its own memory: there the host needs room for the framework and
for the data until they are placed, and a batch that is too large ends as `out_of_memory`.
"""

from whichdevice.measure.backends.number_formats import storage_format
from whichdevice.measure.record import Request

FRAMEWORK_BYTES = 900e6  # a started TensorFlow with Keras
ALLOCATOR_SLACK = 1.1  # allocator and scratch buffers


def weight_bytes(precision: str) -> int:
    """Return the bytes of one weight, its gradient or what an optimiser keeps of it; float32 in mixed formats."""
    return 4 if storage_format(precision) == "float32" else 2


def operation_memory(bytes_per_step: float, request: Request, copies: float = 3.0) -> float:
    """Host bytes that a single operation needs: operands in float32 and, on a CPU, placed ones and the result."""
    if request.kind != "cpu":
        return FRAMEWORK_BYTES + 2 * bytes_per_step
    return FRAMEWORK_BYTES + copies * bytes_per_step * request.replicas


def inference_memory(parameters: float, between: float, request: Request, data_bytes: float) -> float:
    """Host bytes of a forward pass: framework, data and the batches drawn from them, weights, what lives between."""
    if request.kind != "cpu":
        return FRAMEWORK_BYTES + ALLOCATOR_SLACK * 2 * data_bytes
    weights = parameters * weight_bytes(request.precision)
    return FRAMEWORK_BYTES + ALLOCATOR_SLACK * (2 * data_bytes + request.replicas * weights + between)


def training_memory(parameters: float, between: float, request: Request, data_bytes: float) -> float:
    """Host bytes: framework, data (mapped file and placed copy), weights with optimiser, what lives between.

    The CPU's replicas each have the data and the weights. An estimate, meant to be one to two times what a run takes.
    """
    if request.kind != "cpu":
        return FRAMEWORK_BYTES + ALLOCATOR_SLACK * 2 * data_bytes
    weights = parameters * 4 * weight_bytes(request.precision)
    return FRAMEWORK_BYTES + ALLOCATOR_SLACK * (data_bytes + request.replicas * (data_bytes + weights) + between)
