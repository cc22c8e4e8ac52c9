"""The big Transformer for translation, as in MLPerf Training 0.5 to 0.7: six layers on each side, generated tokens."""

import keras
import numpy as np
from keras import layers

LOSS = "sparse_categorical_crossentropy_from_logits"
BATCH_SIZE = 16
SEQUENCE_LENGTH = 80
EXAMPLES = 1024
UNIT = "sentence"
SOURCE = "Vaswani et al., 2017"

VOCABULARY, WIDTH, HEADS, FEEDFORWARD, DEEP = 33708, 1024, 16, 4096, 6


def data(options):
    """Random source and target sentences side by side, and the target's next words."""
    random = np.random.default_rng(1)
    length = options.sequence_length or SEQUENCE_LENGTH
    examples = max(EXAMPLES, options.batch_size * 8 // 7 + 1)
    both = random.integers(0, VOCABULARY, (examples, 2 * length), dtype=np.int32)
    return both, random.integers(0, VOCABULARY, (examples, length), dtype=np.int32)


def attended(x, other=None, causal=False):
    attention = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
    y = attention(layers.LayerNormalization()(x), other, use_causal_mask=causal) if other is not None else None
    if y is None:
        normed = layers.LayerNormalization()(x)
        y = attention(normed, normed, use_causal_mask=causal)
    return layers.Add()([x, y])


def fed(x):
    y = layers.Dense(FEEDFORWARD, activation="relu")(layers.LayerNormalization()(x))
    return layers.Add()([x, layers.Dense(WIDTH)(y)])


def model(options):
    length = options.sequence_length or SEQUENCE_LENGTH
    both = keras.Input((2 * length,), dtype="int32")
    words = layers.Embedding(VOCABULARY, WIDTH)(both)
    x, y = words[:, :length], words[:, length:]
    for _ in range(options.get("layers", DEEP)):
        x = fed(attended(x))
    x = layers.LayerNormalization()(x)
    for _ in range(options.get("layers", DEEP)):
        y = fed(attended(attended(y, causal=True), x))
    logits = layers.Dense(VOCABULARY, use_bias=False)(layers.LayerNormalization()(y))
    return keras.Model(both, layers.Activation("linear", dtype="float32")(logits), name="transformer")


def optimizer():
    return keras.optimizers.Adam(1e-3)
