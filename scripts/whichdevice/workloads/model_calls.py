"""Every call of a layer or operation in a Keras model, from input to output, with shapes of one example.

Sizes that a graph leaves open, a nested model's above all, are those of the call: told by Keras node by node.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from whichdevice.workloads.layer_products import Products, Shape, is_keras_own, layer_products
from whichdevice.workloads.traced_products import Counter, traced_products

# Operations that Keras records between layers and that hold products.
PRODUCTS = {
    "Matmul", "Einsum", "Dot", "Tensordot", "Inner", "Conv", "ConvTranspose", "DepthwiseConv", "SeparableConv",
    "DotProductAttention",
}  # fmt: skip


OpenShape = Sequence[int | None]


@dataclass(frozen=True)
class Call:
    """One call: its products, the size of its output, and what its gradients need."""

    products: Products
    output: float  # numbers
    learns: bool  # whether it has weights that are trained
    learns_below: bool  # whether anything that it reads depends on trained weights
    unknown: tuple[str, ...] = ()


def model_calls(model: Any, inputs: list[Any]) -> Iterator[Call]:
    """Calls in the order of the graph, of one example; a model that is no graph of layers is one call, traced.

    `inputs` are the Keras tensors that it is given, as `examples_of` makes them.
    """
    graph = _graph(model)
    if graph is not None:
        yield from _graph_calls(graph, inputs, set())
    else:
        yield _traced(model, [inputs[0] if len(inputs) == 1 else inputs], {}, False)


def input_shapes(model: Any, sequence_length: int | None, example: OpenShape | None) -> list[OpenShape]:
    """Of one example of each input: the first's as given, else the model's own with the sequence along open axes."""
    own: list[OpenShape] = [
        [sequence_length if size is None else size for size in tensor.shape[1:]] for tensor in model.inputs
    ]
    return own if example is None else [example, *own[1:]]


def examples_of(model: Any, shapes: list[OpenShape]) -> list[Any]:
    """Keras tensors of one example; an axis that is still open has one place."""
    return [_sized(own, (1, *(size or 1 for size in shape))) for own, shape in zip(model.inputs, shapes, strict=True)]


def real_output(model: Any, inputs: list[Any]) -> Shape:
    """Shape of what the model gives for one example of these; an axis that nobody knows counts 1."""
    tensor = model.outputs[0]
    if None in tensor.shape[1:]:
        with suppress(Exception):  # training says what is wrong in its own words
            tensor = model.compute_output_spec(inputs[0] if len(inputs) == 1 else inputs)
    return _sizes(_one_example(tensor))


def _graph(operation: Any) -> Any:
    """The graph of a model; None where it is no graph of layers."""
    graph = getattr(operation, "_functional", None) or operation  # a Sequential keeps its graph
    return graph if hasattr(graph, "_nodes_by_depth") else None


def _sized(tensor: Any, shape: tuple[int, ...]) -> Any:
    from keras import KerasTensor

    return KerasTensor(shape, tensor.dtype)


def _one_example(tensor: Any) -> Any:
    """A batch of one, with one place along each axis that is open."""
    return _sized(tensor, tuple(1 if place == 0 else size or 1 for place, size in enumerate(tensor.shape)))


def _sizes(tensor: Any) -> Shape:
    """Sizes without the batch."""
    return list(tensor.shape)[1:]


def _graph_calls(graph: Any, inputs: list[Any], learning: set[int]) -> Iterator[Call]:
    """`learning` holds the graph's tensors that depend on trained weights; `real` has them as they are in this call."""
    real = {id(own): given for own, given in zip(graph.inputs, inputs, strict=False)}  # a mask may follow
    for depth in sorted(graph._nodes_by_depth, reverse=True):
        for node in graph._nodes_by_depth[depth]:
            operation, read = node.operation, node.input_tensors
            if node.is_input or type(operation).__name__ == "InputLayer":
                continue
            below = any(id(tensor) in learning for tensor in read)
            given = [real.setdefault(id(tensor), _one_example(tensor)) for tensor in read]
            arguments, keywords = node.arguments.fill_in(real)
            made, unknown = _made(operation, node, arguments, keywords)
            real.update((id(own), one) for own, one in zip(node.output_tensors, made, strict=True))
            inner = _graph(operation)
            if inner is not None:
                held = {id(tensor) for tensor in inner.inputs} if below else set()
                yield from _graph_calls(inner, given, held)
            else:
                call = _call(operation, [_sizes(each) for each in given], made, arguments, keywords, below)
                yield replace(call, unknown=call.unknown or unknown)
            if below or getattr(operation, "trainable_weights", None):
                learning.update(id(tensor) for tensor in node.output_tensors)


def _made(operation: Any, node: Any, arguments: Any, keywords: dict[str, Any]) -> tuple[list[Any], tuple[str, ...]]:
    """What a call gives for one example; and its name, where the graph leaves a size open and Keras cannot tell it."""
    from keras import Operation, tree

    own = node.output_tensors
    if not any(None in tensor.shape[1:] for tensor in own):
        return [_one_example(tensor) for tensor in own], ()
    for told_by in (operation.compute_output_spec, partial(Operation.compute_output_spec, operation)):
        with suppress(Exception):  # as in `_traced`
            told = tree.flatten(told_by(*arguments, **keywords))  # by a formula of its own, then by a trace
            if len(told) == len(own) and not any(None in tensor.shape for tensor in told):
                return told, ()
    return [_one_example(tensor) for tensor in own], (type(operation).__name__,)


def _call(
    operation: Any, inputs: list[Shape], made: list[Any], arguments: Any, keywords: dict[str, Any], below: bool
) -> Call:
    output = [_sizes(tensor) for tensor in made]
    known = layer_products(operation, inputs, output[0])
    learns = bool(getattr(operation, "trainable_weights", None))
    if known is not None:
        return Call(known, float(sum(map(prod, output))), learns, below)
    if _needs_trace(operation):
        return _traced(operation, arguments, keywords, below)
    return Call(Products(), float(sum(map(prod, output))), learns, below)


def _needs_trace(operation: Any) -> bool:
    import keras

    if not isinstance(operation, keras.layers.Layer):
        return type(operation).__name__ in PRODUCTS
    return not is_keras_own(operation) or bool(operation._layers)


def _traced(operation: Any, arguments: Any, keywords: dict[str, Any], below: bool) -> Call:
    learns = bool(getattr(operation, "trainable_weights", None))
    try:
        counter = traced_products(operation, tuple(arguments), dict(keywords))
    except Exception:  # the layer itself is at fault; training says so with its own words
        counter = Counter(unknown=[type(operation).__name__])
    unknown = dict.fromkeys(counter.unknown)
    # Most products in such layers are with computed factors or with weights: three products for each in training.
    return Call(counter.products, 0.0, learns, below or learns, tuple(unknown))
