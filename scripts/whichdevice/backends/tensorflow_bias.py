"""Gradients of a convolution's bias as a product with ones, on CPUs.

TensorFlow sums a batch's gradients over positions in one slow kernel, inside oneDNN's filter gradient no quicker. The
same sum as a matrix product runs at the speed of memory.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from whichdevice.replacing import replaced


def product_bias_gradients(tf: Any) -> AbstractContextManager[None]:
    """While it lasts, biases added to images [batch, rows, columns, channels] get their gradients by a product."""
    return replaced(tf.nn, bias_add=partial(_bias_add, tf))


def sum_of_positions(tf: Any, gradients: Any) -> Any:
    """Gradients [..., channels] summed to [channels]."""
    positions = tf.reshape(gradients, [-1, gradients.shape[-1]])
    ones = tf.ones([1, tf.shape(positions)[0]], gradients.dtype)
    return tf.reshape(ones @ positions, [-1])


def _bias_add(tf: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Any:
        if value.shape.rank != 4 or data_format not in (None, "NHWC"):
            return own(value, bias, data_format=data_format, name=name)

        @tf.custom_gradient
        def added(value: Any, bias: Any) -> tuple[Any, Callable[[Any], tuple[Any, Any]]]:
            return own(value, bias), lambda upstream: (upstream, sum_of_positions(tf, upstream))

        return added(value, bias)

    return bias_add
