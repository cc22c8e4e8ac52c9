"""Masks of dropout for TensorFlow on CPUs, from fewer random bits than the 32 a float32 number that Keras draws.

Small arrays take a byte an element from the Philox generator, and a byte more for each example settles the last eight
bits of the rate: every element is dropped with a probability within 1 in 65,536 of it, closer than by TensorFlow's own
masks in bfloat16, whose uniform numbers are multiples of 1/128. Two elements of an example share that byte and are
correlated by 1 in 50,000 at most.

Large arrays are masked inside a program of XLA's, where an element's 16 bits are a hash of its number and of three
words that Philox draws for the step (`dropout_hash.py`).
"""

from typing import Any

import numpy as np

from whichdevice.backends.dropout_hash import WORDS, hashed
from whichdevice.backends.keras_functions import LEVELS

BYTE = 256
BYTES_A_WORD = 4
MOST = 255 * BYTE  # levels dropped; above, the rest of the rate would need a byte of 256


def is_drawn(tf: Any, inputs: Any, dropped: int) -> bool:
    """Whether masks of these inputs are drawn here: numbers of known shape, a rate that is not nearly all."""
    if dropped > MOST or not tf.is_tensor(inputs) or not inputs.dtype.is_floating:
        return False
    return bool(inputs.shape.rank) and inputs.shape.is_fully_defined()


def kept_by_bytes(tf: Any, shape: Any, dropped: int, seed: Any) -> Any:
    """Which elements stay, by random bytes: `dropped` of 65,536 levels go, the first axis counts examples."""
    elements, examples = shape.num_elements(), shape[0]
    words = _random_words(tf, -(-(elements + examples) // BYTES_A_WORD), seed)
    drawn = tf.reshape(tf.bitcast(words, tf.uint8), [-1])[: elements + examples]
    last = tf.cast(drawn[elements:], tf.int32)
    below = tf.cast(dropped // BYTE + tf.cast(last < dropped % BYTE, tf.int32), tf.uint8)
    return tf.reshape(drawn[:elements], shape) >= tf.reshape(below, [examples] + [1] * (len(shape) - 1))


def words_of_step(tf: Any, seed: Any) -> Any:
    """What a step's hashes start from, uint32 [3]."""
    return _random_words(tf, WORDS, seed)


def kept_by_hash(tf: Any, shape: Any, dropped: int, words: Any) -> Any:
    """Which elements stay, by a hash of each one's number; for programs that XLA compiles. Numbers wrap at 2³²."""
    columns = shape[-1]
    first = tf.cast(tf.range(shape.num_elements() // columns), tf.uint32)[:, None] * np.uint32(columns)
    numbers = first + tf.cast(tf.range(columns), tf.uint32)
    bits = hashed(numbers, tf.unstack(words), lambda x, by: tf.bitwise.right_shift(x, np.uint32(by)))
    return tf.reshape(bits >= np.uint32(dropped), shape)


def masked(tf: Any, values: Any, kept: Any, dropped: int) -> Any:
    """The values that stay, scaled so that the mean does."""
    scale = tf.constant(LEVELS / (LEVELS - dropped), values.dtype)
    return tf.where(kept, values * scale, tf.zeros_like(values))


def _random_words(tf: Any, count: int, seed: Any) -> Any:
    """uint32 [count], from the Philox generator."""
    state = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.bitcast(tf.cast(seed, tf.uint32), tf.int32))
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[count], key=state.key, counter=state.counter, alg=1, dtype=tf.uint32
    )
