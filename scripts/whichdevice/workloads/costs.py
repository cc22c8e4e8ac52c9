"""What a step of a Keras model costs, counted call by call from shapes: operations, bytes, saved activations.

A product of n × k by k × m counts 2·n·k·m operations. Training costs the forward products three times
(forward, gradient of the input, gradient of the weights), twice where nothing below the layer learns,
as its input's gradient is not needed. Elementwise work is left out, as is usual for FLOP utilisation; attention
counts every place with every other, as is usual too, whether a mask leaves half of them out or not.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

from whichdevice.records.facts import BY_LAYERS
from whichdevice.workloads.model_calls import Call, OpenShape, examples_of, input_shapes, model_calls, real_output


@dataclass(frozen=True)
class Costs:
    """Costs of one example (not of a batch)."""

    forward_flops: float
    training_flops: float
    activations: float  # numbers that the backward pass needs again
    parameters: int
    trainable_parameters: int
    counted: str = BY_LAYERS  # how the operations were counted, and what was not


def model_costs(model: Any, sequence_length: int | None = None, example: OpenShape | None = None) -> Costs:
    """Count a built Keras model for inputs of the shape `example`, that of one without the batch.

    Without it `sequence_length` stands in for axes that the model leaves open. Where somebody's own layer hides its
    products, they are counted in JAX's trace if that is the backend; else they are missing, and `counted` says of
    which layers.
    """
    shapes = input_shapes(model, sequence_length, example)
    inputs = examples_of(model, shapes)
    calls = list(model_calls(model, inputs))
    forward = sum(call.products.fed + call.products.inner for call in calls)
    training = sum(_training(call) for call in calls)
    activations = sum(call.output + call.products.saved for call in calls)
    trainable = sum(prod(weight.shape) for weight in model.trainable_weights)
    counted = BY_LAYERS
    unknown = sorted({name for call in calls for name in call.unknown})
    if any(None in shape for shape in shapes):
        counted = f"{BY_LAYERS}, a lower bound: open axes of the input count 1"
    elif unknown:
        counted = f"{BY_LAYERS}, without what {', '.join(unknown)} may do: a lower bound"
        if (by_jax := _by_jax(model, inputs)) is not None:
            forward, training = by_jax
            counted = f"by JAX's trace of the step, as the products in {', '.join(unknown)} are not Keras' own"
    return Costs(float(forward), float(training), float(activations), model.count_params(), trainable, counted)


def output_shape(model: Any, example: OpenShape) -> list[int]:
    """Of what the model gives for one input of the shape `example`; an axis that nobody knows counts 1."""
    return real_output(model, examples_of(model, input_shapes(model, None, example)))


def _training(call: Call) -> float:
    fed = 1 + call.learns_below + (call.learns if call.products.fed else 0)
    return call.products.fed * fed + call.products.inner * (3 if call.learns or call.learns_below else 1)


def _by_jax(model: Any, inputs: list[Any]) -> tuple[float, float] | None:
    import keras

    if keras.backend.backend() != "jax":
        return None
    from whichdevice.workloads.jax_products import jax_products

    return jax_products(model, inputs)
