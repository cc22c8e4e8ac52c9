"""What a step of a Keras model costs, counted layer by layer from shapes: operations, bytes, saved activations.

A product of n × k by k × m counts 2·n·k·m operations. Training costs the forward products three times
(forward, gradient of the input, gradient of the weights), twice where nothing below the layer learns,
as its input's gradient is not needed. Elementwise work is left out, as is usual for FLOP utilisation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

# Arrays of [batch, steps, units] that back-propagation keeps for each recurrent step: gates, states and
# their inputs. Set so that the estimate meets measured peaks (docs/measurement.md).
SAVED_PER_RECURRENT_UNIT = {"LSTM": 10, "GRU": 9, "SimpleRNN": 3}


@dataclass(frozen=True)
class Costs:
    """Costs of one example (not of a batch)."""

    forward_flops: float
    training_flops: float
    activations: float  # numbers that the backward pass needs again
    parameters: int
    trainable_parameters: int


def model_costs(model: Any, sequence_length: int | None = None) -> Costs:
    """Count a built Keras model; `sequence_length` stands in for time axes that the model leaves open."""
    forward = training = activations = 0.0
    learns_below = False
    for layer in _layers(model):
        output = _shape(layer.output.shape, sequence_length)
        fed, inner = _forward_products(layer, output, sequence_length)
        forward += fed + inner
        training += fed * (3 if learns_below else 2) + inner * 3
        activations += prod(output) * SAVED_PER_RECURRENT_UNIT.get(type(layer).__name__, 1)
        learns_below = learns_below or bool(layer.trainable_weights)
    trainable = sum(prod(weight.shape) for weight in model.trainable_weights)
    return Costs(forward, training, activations, model.count_params(), trainable)


def _layers(model: Any) -> Iterator[Any]:
    for layer in model.layers:
        if hasattr(layer, "layers"):
            yield from _layers(layer)
        elif type(layer).__name__ != "InputLayer":
            yield layer


def _shape(shape: tuple, sequence_length: int | None) -> list[int]:
    """Sizes without the batch; an open axis is the sequence's."""
    return [size if size is not None else (sequence_length or 1) for size in shape[1:]]


def _forward_products(layer: Any, output: list[int], sequence_length: int | None) -> tuple[float, float]:
    """Operations of the products with the layer's input, and of those within it (recurrent state)."""
    kind = type(layer).__name__
    if kind in SAVED_PER_RECURRENT_UNIT:
        steps = _shape(layer.input.shape, sequence_length)[0]
        return 2.0 * steps * prod(layer.cell.kernel.shape), 2.0 * steps * prod(layer.cell.recurrent_kernel.shape)
    if kind.startswith(("Conv", "Dense", "EinsumDense", "DepthwiseConv", "SeparableConv")):
        kernels = [weight for weight in layer.trainable_weights if len(weight.shape) > 1]
        return sum(2.0 * prod(output[:-1]) * prod(kernel.shape) for kernel in kernels), 0.0
    return 0.0, 0.0
