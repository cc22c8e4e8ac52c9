"""Dropout on CPUs from 16 random bits an element, where TensorFlow draws 32 and makes a float of them.

16 bits give every rate within 1 in 65,536, closer than TensorFlow's own masks in bfloat16, whose uniform numbers are
multiples of 1/128.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from whichdevice.backends.keras_functions import LEVELS, dropped_levels
from whichdevice.replacing import replaced


def short_dropout(tf: Any) -> AbstractContextManager[None]:
    """While it lasts, programs that are traced take their dropout from here; Keras' own comes back after it."""
    return replaced("keras.src.backend.tensorflow.random", dropout=lambda own: _dropout(tf, own))


def _dropout(tf: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
        from keras.src.backend.tensorflow.random import draw_seed

        dropped = dropped_levels(rate, noise_shape)
        if dropped is None:
            return own(inputs, rate, noise_shape, seed)
        keep = _random_bits(tf, tf.shape(inputs), draw_seed(seed)) >= tf.constant(dropped, tf.uint16)
        mask = tf.cast(keep, inputs.dtype) * tf.cast(LEVELS / (LEVELS - dropped), inputs.dtype)
        return inputs * tf.stop_gradient(mask)

    return dropout


def _random_bits(tf: Any, shape: Any, seed: Any) -> Any:
    """uint16 of a shape, from the Philox generator; each 32 bits serve two elements."""
    state = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.bitcast(tf.cast(seed, tf.uint32), tf.int32))
    count = tf.reduce_prod(shape)
    words = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[(count + 1) // 2], key=state.key, counter=state.counter, alg=1, dtype=tf.uint32
    )
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:count], shape)
