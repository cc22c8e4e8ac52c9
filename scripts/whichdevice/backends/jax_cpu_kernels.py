"""Max-pooling and dropout for JAX on CPUs.

The gradient of XLA's pooling scatters element by element. Where windows do not overlap,
comparing each of a window's places with its maximum gives the same gradient (the first of equal ones takes it). Dropout
takes 16 bits an element from a hash in place of 32 from JAX's generator.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from whichdevice.backends.dropout_hash import WORDS, hashed
from whichdevice.backends.keras_functions import LEVELS, dropped_levels, whole_windows
from whichdevice.replacing import replaced


@contextmanager
def quick_kernels(jax: Any) -> Iterator[None]:
    """While it lasts, traced steps have these; Keras' own come back after it."""
    with ExitStack() as stack:
        stack.enter_context(replaced("keras.src.backend.jax.nn", max_pool=partial(_max_pool, _window_maximum(jax))))
        stack.enter_context(replaced("keras.src.backend.jax.random", dropout=partial(_dropout, jax)))
        yield


def _max_pool(maximum: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    def max_pool(
        inputs: Any, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: str | None = None
    ) -> Any:
        windows = whole_windows(inputs, pool_size, strides, padding, data_format)
        if windows is None:
            return own(inputs, pool_size, strides, padding, data_format)
        rows, columns = (extent // step * step for extent, step in zip(inputs.shape[1:3], windows, strict=True))
        return maximum(inputs[:, :rows, :columns], windows)

    return max_pool


def _window_maximum(jax: Any) -> Callable[..., Any]:
    """Maxima of windows (rows, columns) of [batch, rows, columns, channels]."""
    numpy = jax.numpy

    def places(inputs: Any, windows: tuple[int, int]) -> Any:
        batch, rows, columns, channels = inputs.shape
        return inputs.reshape(batch, rows // windows[0], windows[0], columns // windows[1], windows[1], channels)

    @partial(jax.custom_vjp, nondiff_argnums=(1,))
    def maximum(inputs: Any, windows: tuple[int, int]) -> Any:
        return places(inputs, windows).max((2, 4))

    def forward(inputs: Any, windows: tuple[int, int]) -> tuple[Any, Any]:
        largest = maximum(inputs, windows)
        return largest, (inputs, largest)

    def backward(windows: tuple[int, int], kept: Any, upstream: Any) -> tuple[Any]:
        inputs, largest = kept
        each, taken, rows = places(inputs, windows), numpy.zeros(largest.shape, bool), []
        for row in range(windows[0]):
            columns = []
            for column in range(windows[1]):
                first = (each[:, :, row, :, column] == largest) & ~taken
                taken |= first
                columns.append(numpy.where(first, upstream, 0))
            rows.append(numpy.stack(columns, 3))
        return (numpy.stack(rows, 2).reshape(inputs.shape),)

    maximum.defvjp(forward, backward)
    return maximum


def _dropout(jax: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
        from keras.src.backend.jax.random import jax_draw_seed

        dropped = dropped_levels(rate, noise_shape)
        if dropped is None:
            return own(inputs, rate, noise_shape, seed)
        words = jax.random.bits(jax_draw_seed(seed), (WORDS,), "uint32")
        numbers = jax.lax.iota("uint32", inputs.size).reshape(inputs.shape)
        bits = hashed(numbers, list(words), lambda x, by: x >> by)
        scale = jax.numpy.asarray(LEVELS / (LEVELS - dropped), inputs.dtype)
        return jax.numpy.where(bits >= dropped, inputs * scale, 0)

    return dropout
