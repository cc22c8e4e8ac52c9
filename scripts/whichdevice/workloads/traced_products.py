"""Operations of the products in any piece of a Keras model, counted while Keras traces it with shapes alone.

For what has no count by its kind: layers and models that somebody wrote in `keras.ops`, and operations between layers.
Works on every backend, as Keras' functions are counted and not the backend's. A loop written in `keras.ops` is traced
once, and what calls a backend directly is not seen: both are told as unknown.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import prod
from types import FunctionType, ModuleType
from typing import Any

from whichdevice.replacing import replaced
from whichdevice.workloads import operation_products as of
from whichdevice.workloads.layer_products import SAVED_PER_RECURRENT_UNIT, Products, is_keras_own, layer_products

FRAMEWORKS = ("jax", "tensorflow", "torch")
OTHERS = ("keras", "builtins", *FRAMEWORKS)  # classes of these are nobody's own
LOOPS = ("scan", "while_loop", "fori_loop", "associative_scan", "map", "rnn")
Maker = Callable[[Callable[..., Any]], Callable[..., Any]]
Flops = Callable[..., float]


@dataclass
class Counter:
    """What a trace has met so far; `depth` is above 0 within something that was counted as a whole."""

    products: Products = field(default_factory=Products)
    unknown: list[str] = field(default_factory=list)
    depth: int = 0

    def add(self, products: Products) -> None:
        """Count it, unless it belongs to something already counted."""
        if self.depth == 0:
            self.products += products


def traced_products(call: Callable[..., Any], arguments: Sequence[Any], keywords: dict[str, Any]) -> Counter:
    """Count one call; tensors among the arguments are Keras tensors whose first axis is one example."""
    from keras.src import backend

    counter = Counter()

    def counted(*args: Any, **kwargs: Any) -> Any:
        counter.products, counter.depth = Products(), 0  # PyTorch may start a trace again
        counter.unknown.clear()
        with _counting(counter):
            return call(*args, **kwargs)

    backend.compute_output_spec(counted, *arguments, **keywords)
    return counter


@contextmanager
def _counting(counter: Counter) -> Iterator[None]:
    import keras
    from keras.src import backend

    def product(flops: Flops) -> Maker:
        def maker(own: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                with _within(counter):
                    out = own(*args, **kwargs)
                counter.add(Products(inner=flops(out, *args, **kwargs), saved=float(prod(out.shape))))
                return out

            return call

        return maker

    def loop(own: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            before = counter.products
            out = own(*args, **kwargs)
            if counter.products != before:
                counter.unknown.append("a loop")
            return out

        return call

    numpy: dict[str, Flops] = {
        "matmul": of.matmul,
        "einsum": of.einsum,
        "dot": of.contracted,
        "tensordot": of.contracted,
        "inner": of.contracted,
    }
    networks: dict[str, Flops] = {
        "conv": of.convolution,
        "depthwise_conv": of.convolution,
        "conv_transpose": of.transposed_convolution,
        "separable_conv": of.separable_convolution,
        "dot_product_attention": of.attention,
    }
    with ExitStack() as stack:
        for module, makers in (
            (backend.numpy, {name: product(flops) for name, flops in numpy.items()}),
            (backend.nn, {name: product(flops) for name, flops in networks.items()}),
            (
                backend.nn,
                {"separable_conv": product(of.separable_convolution), "dot_product_attention": product(of.attention)},
            ),
            (backend.core, dict.fromkeys(LOOPS, loop)),
            (backend, dict.fromkeys(("rnn",), loop)),
            (keras.layers.Layer, {"__call__": lambda own: _layer_call(own, counter)}),
        ):
            stack.enter_context(replaced(module, **makers))
        yield


@contextmanager
def _within(counter: Counter) -> Iterator[None]:
    counter.depth += 1
    try:
        yield
    finally:
        counter.depth -= 1


def _layer_call(own: Callable[..., Any], counter: Counter) -> Callable[..., Any]:
    """Layers that loop over time are counted by their kind; a layer that shows no product for its weights is told."""

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if is_keras_own(layer) and type(layer).__name__ in SAVED_PER_RECURRENT_UNIT:
            with _within(counter):
                out = own(layer, *args, **kwargs)
            found = layer_products(layer, [list(args[0].shape[1:])], list(out.shape[1:]))
            counter.add(found or Products())
            return out
        before = counter.products
        out = own(layer, *args, **kwargs)
        if counter.depth == 0 and hides_products(layer):
            counter.unknown.append(type(layer).__name__)
        if is_keras_own(layer) and hasattr(out, "shape") and not layer._layers and counter.products == before:
            counter.add(Products(saved=float(prod(out.shape))))
        return out

    return call


def hides_products(layer: Any) -> bool:
    """Whether somebody's own layer calls a framework itself, as its code shows, and may have products there."""
    kinds = [kind for kind in type(layer).__mro__ if kind.__module__.split(".")[0] not in OTHERS]
    functions = [value for kind in kinds for value in vars(kind).values() if isinstance(value, FunctionType)]
    return any(_calls_framework(function) for function in functions)


def _calls_framework(function: FunctionType) -> bool:
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        origin = getattr(value, "__name__", None) if isinstance(value, ModuleType) else getattr(value, "__module__", "")
        if name in FRAMEWORKS or str(origin).split(".")[0] in FRAMEWORKS:
            return True
    return False
