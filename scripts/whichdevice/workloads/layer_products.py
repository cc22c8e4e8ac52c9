"""Operations of the products in one call of a Keras layer, by its kind, from shapes: 2·n·k·m for n × k by k × m.

Shapes are of one example, without the batch. Keras' other layers have no products.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

# Arrays of [batch, steps, units] that back-propagation keeps for each recurrent step: gates, states and
# their inputs. Set so that the estimate meets measured peaks (docs/measurement.md).
SAVED_PER_RECURRENT_UNIT = {"LSTM": 10, "GRU": 9, "SimpleRNN": 3}

Shape = list[int]


@dataclass(frozen=True)
class Products:
    """Operations with weights (`fed`), and those of which both factors are computed (`inner`): state, attention."""

    fed: float = 0.0
    inner: float = 0.0
    saved: float = 0.0  # numbers kept for the backward pass besides the output

    def __add__(self, other: "Products") -> "Products":
        return Products(self.fed + other.fed, self.inner + other.inner, self.saved + other.saved)

    def __mul__(self, times: float) -> "Products":
        return Products(self.fed * times, self.inner * times, self.saved * times)


def layer_products(layer: Any, inputs: list[Shape], output: Shape) -> Products | None:
    """Of one call; None where the kind of layer is not known here."""
    count = KINDS.get(type(layer).__name__)
    return count(layer, inputs, output) if count is not None and is_keras_own(layer) else None


def is_keras_own(operation: Any) -> bool:
    """Whether a layer or operation is Keras' own, not a class that somebody derived from one."""
    return type(operation).__module__.split(".")[0] == "keras"


def _kernels(layer: Any) -> list[Shape]:
    return [list(weight.shape) for weight in layer.weights if len(weight.shape) > 1]


def _places(layer: Any, shape: Shape) -> int:
    """Places of an image, a sequence or a volume, without its channels."""
    first = getattr(layer, "data_format", "channels_last") == "channels_first"
    return prod(shape[1:] if first else shape[:-1])


def _dense(layer: Any, inputs: list[Shape], output: Shape) -> Products:
    return Products(2.0 * prod(output[:-1]) * sum(prod(kernel) for kernel in _kernels(layer)))


def _einsum_dense(layer: Any, inputs: list[Shape], output: Shape) -> Products:
    from whichdevice.workloads.operation_products import einsum_operations

    return Products(einsum_operations(layer.equation, [[1, *inputs[0]], list(layer.kernel.shape)]))


def _convolution(layer: Any, inputs: list[Shape], output: Shape) -> Products:
    return Products(2.0 * _places(layer, output) * sum(prod(kernel) for kernel in _kernels(layer)))


def _transposed(layer: Any, inputs: list[Shape], output: Shape) -> Products:
    return Products(2.0 * _places(layer, inputs[0]) * sum(prod(kernel) for kernel in _kernels(layer)))


def _recurrent(layer: Any, inputs: list[Shape], output: Shape) -> Products:
    steps, cell = inputs[0][0], layer.cell
    saved = prod(output) * (SAVED_PER_RECURRENT_UNIT[type(layer).__name__] - 1)
    return Products(2.0 * steps * prod(cell.kernel.shape), 2.0 * steps * prod(cell.recurrent_kernel.shape), saved)


def _bidirectional(layer: Any, inputs: list[Shape], output: Shape) -> Products | None:
    half = [*output[:-1], layer.forward_layer.units]
    both = [layer_products(each, inputs, half) for each in (layer.forward_layer, layer.backward_layer)]
    return None if both[0] is None or both[1] is None else both[0] + both[1]


def _each_step(layer: Any, inputs: list[Shape], output: Shape) -> Products | None:
    if not is_keras_own(layer.layer):
        return None
    found = layer_products(layer.layer, [inputs[0][1:]], output[1:])
    return None if found is None else found * inputs[0][0]


def _multi_head(layer: Any, inputs: list[Shape], output: Shape) -> Products:
    query, value = inputs[0], inputs[1] if len(inputs) > 1 else inputs[0]
    length, seen = prod(query[:-1]), prod(value[:-1])
    grouped = hasattr(layer, "num_query_heads")
    heads = layer.num_query_heads if grouped else layer.num_heads
    key_size = layer.head_dim if grouped else layer.key_dim
    value_size = layer.head_dim if grouped else layer.value_dim
    sizes = {"query": length, "key": seen, "value": seen, "attention_output": length, "gate": length}
    fed = 0.0
    for part in layer._flatten_layers(include_self=False, recursive=False):
        places = sizes.get(part.name, length)
        fed += 2.0 * places * prod(part.kernel.shape) if hasattr(part, "kernel") else 0.0
    scores = heads * length * seen
    saved = heads * (length * key_size + seen * (key_size + value_size) + length * value_size) + 2 * scores
    return Products(fed, 2.0 * scores * (key_size + value_size), saved)


def _attention(layer: Any, inputs: list[Shape], output: Shape) -> Products:
    query, value = inputs[0], inputs[1]
    key = inputs[2] if len(inputs) > 2 else value
    scores = query[-2] * value[-2]
    products = value[-1] + (key[-1] if type(layer).__name__ == "Attention" else 0)  # additive scores have no product
    return Products(0.0, 2.0 * scores * products, 2.0 * scores)


def _dot(layer: Any, inputs: list[Shape], output: Shape) -> Products:
    axis = layer.axes if isinstance(layer.axes, int) else layer.axes[0]
    contracted = inputs[0][axis - 1 if axis > 0 else axis]
    return Products(0.0, 2.0 * prod(output) * contracted)


Count = Callable[[Any, list[Shape], Shape], Products | None]
KINDS: dict[str, Count] = {
    "Dense": _dense,
    "EinsumDense": _einsum_dense,
    **{f"Conv{rank}D": _convolution for rank in (1, 2, 3)},
    **{f"DepthwiseConv{rank}D": _convolution for rank in (1, 2)},
    **{f"SeparableConv{rank}D": _convolution for rank in (1, 2)},
    **{f"Conv{rank}DTranspose": _transposed for rank in (1, 2, 3)},
    **dict.fromkeys(SAVED_PER_RECURRENT_UNIT, _recurrent),
    "Bidirectional": _bidirectional,
    "TimeDistributed": _each_step,
    "MultiHeadAttention": _multi_head,
    "GroupedQueryAttention": _multi_head,
    "Attention": _attention,
    "AdditiveAttention": _attention,
    "Dot": _dot,
}
