"""Every call of a layer or operation in a Keras model, from input to output, with shapes of one example."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from whichdevice.workloads.layer_products import Products, Shape, is_keras_own, layer_products
from whichdevice.workloads.traced_products import Counter, traced_products

# Operations that Keras records between layers and that hold products.
PRODUCTS = {
    "Matmul", "Einsum", "Dot", "Tensordot", "Inner", "Conv", "ConvTranspose", "DepthwiseConv", "SeparableConv",
    "DotProductAttention",
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call: its products, the size of its output, and what its gradients need."""

    products: Products
    output: float  # numbers
    learns: bool  # whether it has weights that are trained
    learns_below: bool  # whether anything that it reads depends on trained weights
    unknown: tuple[str, ...] = ()


def model_calls(model: Any, sequence_length: int | None) -> Iterator[Call]:
    """Calls in the order of the graph; a model that is no graph of layers is one call, traced."""
    graph = getattr(model, "_functional", None) or model  # a Sequential keeps its graph
    if hasattr(graph, "_nodes_by_depth"):
        yield from _graph_calls(graph, sequence_length, set())
    else:
        inputs = [_example(tensor, sequence_length) for tensor in model.inputs]
        yield _traced(model, [inputs[0] if len(inputs) == 1 else inputs], {}, sequence_length, False)


def sizes(shape: Any, sequence_length: int | None) -> Shape:
    """Sizes without the batch; an open axis is the sequence's."""
    return [size if size is not None else (sequence_length or 1) for size in tuple(shape)[1:]]


def _graph_calls(graph: Any, sequence_length: int | None, learning: set[int]) -> Iterator[Call]:
    """`learning` holds the tensors that depend on trained weights."""
    for depth in sorted(graph._nodes_by_depth, reverse=True):
        for node in graph._nodes_by_depth[depth]:
            operation, read = node.operation, node.input_tensors
            if node.is_input or type(operation).__name__ == "InputLayer":
                continue
            below = any(id(tensor) in learning for tensor in read)
            inner = getattr(operation, "_functional", None) or operation
            if hasattr(inner, "_nodes_by_depth"):
                held = {id(tensor) for tensor in inner.inputs} if below else set()
                yield from _graph_calls(inner, sequence_length, held)
            else:
                yield _call(operation, node, sequence_length, below)
            if below or getattr(operation, "trainable_weights", None):
                learning.update(id(tensor) for tensor in node.output_tensors)


def _call(operation: Any, node: Any, sequence_length: int | None, below: bool) -> Call:
    output = [sizes(tensor.shape, sequence_length) for tensor in node.output_tensors]
    inputs = [sizes(tensor.shape, sequence_length) for tensor in node.input_tensors]
    known = layer_products(operation, inputs, output[0])
    learns = bool(getattr(operation, "trainable_weights", None))
    if known is not None:
        return Call(known, float(sum(map(prod, output))), learns, below)
    if _needs_trace(operation):
        return _traced(operation, node.arguments.args, node.arguments.kwargs, sequence_length, below)
    return Call(Products(), float(sum(map(prod, output))), learns, below)


def _needs_trace(operation: Any) -> bool:
    import keras

    if not isinstance(operation, keras.layers.Layer):
        return type(operation).__name__ in PRODUCTS
    return not is_keras_own(operation) or bool(operation._layers)


def _traced(operation: Any, arguments: Any, keywords: dict[str, Any], sequence_length: int | None, below: bool) -> Call:
    from keras import KerasTensor, tree

    def example(value: Any) -> Any:
        return _example(value, sequence_length) if isinstance(value, KerasTensor) else value

    learns = bool(getattr(operation, "trainable_weights", None))
    try:
        counter = traced_products(operation, *tree.map_structure(example, (tuple(arguments), dict(keywords))))
    except Exception:  # the layer itself is at fault; training says so with its own words
        counter = Counter(unknown=[type(operation).__name__])
    unknown = dict.fromkeys(counter.unknown)
    # Most products in such layers are with computed factors or with weights: three products for each in training.
    return Call(counter.products, 0.0, learns, below or learns, tuple(unknown))


def _example(tensor: Any, sequence_length: int | None) -> Any:
    from keras import KerasTensor

    return KerasTensor((1, *sizes(tensor.shape, sequence_length)), tensor.dtype)
