"""Bias, ReLU and dropout of large arrays in one pass over memory and after the max-pooling, for TensorFlow on CPUs.

Bias and ReLU only ever rise and are the same for every place of an image: the maximum of what they return is what they
return of the maximum, bit for bit in float32. Pooled first, 2 × 2 windows leave them and their gradients a quarter of
the elements. In 16 bits a convolution's sum is then rounded before its bias is added, which oneDNN does the other way
round. In any format, of values that only rounding made equal the largest takes the gradient, where Keras' order has the
first; and the pooled value has no gradient by the ReLU's own, should a layer ask for that.

XLA makes one loop of them and of a dropout that follows; TensorFlow runs through memory for each, and more for a mask.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from whichdevice.backends.keras_functions import channels_last, dropped_levels
from whichdevice.backends.tensorflow_bias import product_bias_gradients, sum_of_positions
from whichdevice.backends.tensorflow_dropout import is_drawn, kept_by_bytes, kept_by_hash, masked, words_of_step
from whichdevice.replacing import replaced

KERAS = "keras.src.backend.tensorflow"
SIXTEEN_BITS = 2  # bytes
FUSED_ELEMENTS = 1 << 20  # of the pooled array; below, starting XLA's programs takes what they save: found by trial
Function = Callable[..., Any]


class Chain(NamedTuple):
    """How a value was made, kept with it so that its identity stays its own."""

    value: Any
    source: Any
    bias: Any  # [channels]; None: nothing is added
    steps: tuple[Callable[[Any, Any], Any], ...] = ()  # element by element, each with its operands
    operands: tuple[Any, ...] = ()
    pooled: bool = False
    fusible: bool = False  # large, and pooled or dropped out: oneDNN adds bias and ReLU to a convolution at no cost


@contextmanager
def quick_kernels(tf: Any) -> Iterator[None]:
    """While it lasts, programs that are traced have these; Keras' own come back after it."""
    chains = Chains(tf)
    with (
        product_bias_gradients(tf),
        replaced(f"{KERAS}.numpy", add=chains.add),
        replaced(f"{KERAS}.nn", relu=chains.relu, max_pool=chains.max_pool),
        replaced(f"{KERAS}.random", dropout=chains.dropout),
    ):
        yield


class Chains:
    """Makers of the functions, which share what they know of each other's values; what nobody uses is not run."""

    def __init__(self, tf: Any) -> None:
        self._tf = tf
        self._known: dict[int, Chain] = {}

    def add(self, own: Function) -> Function:
        """Remembers what a bias was added to."""

        def add(x1: Any, x2: Any) -> Any:
            value = own(x1, x2)
            if is_bias(x1, x2) and x1.dtype == x2.dtype:
                self._keep(value, Chain(value, x1, self._tf.reshape(x2, [-1])))
            return value

        return add

    def relu(self, own: Function) -> Function:
        """Goes on a chain."""

        def relu(x: Any) -> Any:
            chain = self._longer(self._chain(x), lambda values, _: rectified(self._tf, values), ())
            return self._keep(fused(self._tf, chain) if chain.fusible else own(x), chain)

        return relu

    def max_pool(self, own: Function) -> Function:
        """Pools the source of a chain of bias and ReLU, and what they make of that is the value."""

        def max_pool(
            inputs: Any, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: str | None = None
        ) -> Any:
            windows = pool_size, strides, padding, data_format
            chain = self._chain(inputs)
            if chain.fusible or chain.source is inputs or not channels_last(inputs, data_format):
                return own(inputs, *windows)
            pooled = chain._replace(source=own(chain.source, *windows), pooled=True, fusible=True)
            if not is_large(pooled.source):
                return own(inputs, *windows)
            return self._keep(fused(self._tf, pooled), pooled)

        return max_pool

    def dropout(self, own: Function) -> Function:
        """Ends a chain that is fusible, or is one of its own."""

        def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
            from keras.src.backend.tensorflow.random import draw_seed

            dropped = dropped_levels(rate, noise_shape)
            if dropped is None or not is_drawn(self._tf, inputs, dropped):
                return own(inputs, rate, noise_shape, seed)
            tf, seed = self._tf, draw_seed(seed)
            if not is_large(inputs):
                return masked(tf, inputs, kept_by_bytes(tf, inputs.shape, dropped, seed), dropped)

            def step(values: Any, words: Any) -> Any:
                return masked(tf, values, kept_by_hash(tf, values.shape, dropped, words), dropped)

            before = self._chain(inputs)
            chain = before if before.fusible else Chain(inputs, inputs, None, fusible=True)
            chain = self._longer(chain, step, words_of_step(tf, seed))
            return self._keep(fused(tf, chain), chain)

        return dropout

    def _chain(self, value: Any) -> Chain:
        return self._known.get(id(value)) or Chain(value, value, None)

    def _keep(self, value: Any, chain: Chain) -> Any:
        self._known[id(value)] = chain._replace(value=value)
        return value

    @staticmethod
    def _longer(chain: Chain, step: Callable[[Any, Any], Any], operands: Any) -> Chain:
        return chain._replace(steps=(*chain.steps, step), operands=(*chain.operands, operands))


def is_large(values: Any) -> bool:
    """Whether XLA's programs are worth their start."""
    elements = values.shape.num_elements()
    return elements is not None and elements >= FUSED_ELEMENTS


def rectified(tf: Any, values: Any) -> Any:
    """ReLU that keeps what is no number, which XLA's maximum loses."""
    return tf.where((values > 0) | tf.math.is_nan(values), values, tf.zeros_like(values))


def is_bias(x1: Any, x2: Any) -> bool:
    """Whether `x2` holds one number for each channel of images [batch, rows, columns, channels]."""
    shape, added = (tuple(getattr(x, "shape", ())) for x in (x1, x2))
    return len(shape) == 4 and added == (1, 1, 1, shape[-1])


def stepped(values: Any, steps: Any, operands: Any) -> Any:
    """The values after every step."""
    for step, own in zip(steps, operands, strict=True):
        values = step(values, own)
    return values


def fused(tf: Any, chain: Chain) -> Any:
    """The chain as one program forward and one back, which computes it again rather than keep what lies between.

    Inside, 16 bits are float32: XLA would make them so for each operation and round after each, twice the time.
    """

    def summed(source: Any, bias: Any) -> Any:
        wide = tf.float32 if source.dtype.size == SIXTEEN_BITS else source.dtype
        values = tf.cast(source, wide)
        if chain.pooled:  # of what is no number oneDNN's pooling makes the lowest one, as of -inf, or in bfloat16 -inf
            values = tf.where(source <= source.dtype.min, tf.constant(float("nan"), wide), values)
        return values + tf.cast(bias, wide)

    @tf.function(jit_compile=True, autograph=False)
    def forward(source: Any, bias: Any, operands: Any) -> Any:
        return tf.cast(stepped(summed(source, bias), chain.steps, operands), source.dtype)

    @tf.function(jit_compile=True, autograph=False)
    def backward(upstream: Any, source: Any, bias: Any, operands: Any) -> Any:
        with tf.GradientTape() as tape:
            shifted = summed(source, bias)
            tape.watch(shifted)
            values = stepped(shifted, chain.steps, operands)
        return tf.cast(tape.gradient(values, shifted, tf.cast(upstream, values.dtype)), source.dtype)

    @tf.custom_gradient
    def whole(source: Any, bias: Any) -> tuple[Any, Callable[[Any], tuple[Any, Any]]]:
        def gradients(upstream: Any) -> tuple[Any, Any]:
            inner = backward(upstream, source, bias, chain.operands)
            return inner, sum_of_positions(tf, inner)

        return forward(source, bias, chain.operands), gradients

    source = chain.source
    return whole(source, tf.zeros(source.shape[-1:], source.dtype) if chain.bias is None else chain.bias)
