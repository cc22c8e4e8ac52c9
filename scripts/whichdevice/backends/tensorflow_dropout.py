"""Masks of dropout from a random byte an element, where TensorFlow draws 32 bits and makes a float of them.

A byte more for each example settles the last eight bits of the rate: every element is dropped with a probability within
1 in 65,536 of it, closer than by TensorFlow's own masks in bfloat16, whose uniform numbers are multiples of 1/128. Two
elements of an example share that byte and are correlated by 1 in 50,000 at most.
"""

from typing import Any

from whichdevice.backends.keras_functions import LEVELS

BYTE = 256
BYTES_A_WORD = 4
MOST = 255 * BYTE  # levels dropped; above, the rest of the rate would need a byte of 256


def is_drawn(tf: Any, inputs: Any, dropped: int) -> bool:
    """Whether masks of these inputs are drawn here: numbers of known shape, a rate that is not nearly all."""
    if dropped > MOST or not tf.is_tensor(inputs) or not inputs.dtype.is_floating:
        return False
    return bool(inputs.shape.rank) and inputs.shape.is_fully_defined()


def dropped_below(tf: Any, shape: Any, dropped: int, seed: Any) -> tuple[Any, Any]:
    """Random bytes of a shape, and per example the byte below which its elements are dropped.

    `dropped` of 65,536 levels are; `shape` is fully known and its first axis counts examples.
    """
    elements, examples = shape.num_elements(), shape[0]
    drawn = _random_bytes(tf, elements + examples, seed)
    last = tf.cast(drawn[elements:], tf.int32)
    below = tf.cast(dropped // BYTE + tf.cast(last < dropped % BYTE, tf.int32), tf.uint8)
    return tf.reshape(drawn[:elements], shape), tf.reshape(below, [examples] + [1] * (len(shape) - 1))


def masked(tf: Any, values: Any, bytes_and_below: tuple[Any, Any], dropped: int) -> Any:
    """The values that stay, scaled so that the mean does."""
    drawn, below = bytes_and_below
    scale = tf.cast(LEVELS / (LEVELS - dropped), values.dtype)
    return tf.where(drawn >= below, values * scale, tf.zeros_like(values))


def _random_bytes(tf: Any, count: int, seed: Any) -> Any:
    """uint8 [count], from the Philox generator."""
    state = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.bitcast(tf.cast(seed, tf.uint32), tf.int32))
    words = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[-(-count // BYTES_A_WORD)], key=state.key, counter=state.counter, alg=1, dtype=tf.uint32
    )
    return tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:count]
