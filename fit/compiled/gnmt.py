"""GNMT as in MLPerf Training 0.5 to 0.7: LSTMs of 1,024 units, four layers on each side, attention, generated tokens.

The first encoder layer runs both ways. The decoder is fed the target's words, and every layer of it sees the context.
"""

import keras
import numpy as np
from keras import layers

LOSS = "sparse_categorical_crossentropy_from_logits"
BATCH_SIZE = 256
SEQUENCE_LENGTH = 48
EXAMPLES = 2048
UNIT = "sentence"
SOURCE = "Wu et al., 2016"

VOCABULARY, WIDTH = 32320, 1024


def data(options):
    """Random source and target sentences side by side, and the target's next words."""
    random = np.random.default_rng(1)
    length = options.sequence_length or SEQUENCE_LENGTH
    examples = max(EXAMPLES, options.batch_size * 8 // 7 + 1)
    both = random.integers(0, VOCABULARY, (examples, 2 * length), dtype=np.int32)
    return both, random.integers(0, VOCABULARY, (examples, length), dtype=np.int32)


def model(options):
    length = options.sequence_length or SEQUENCE_LENGTH
    both = keras.Input((2 * length,), dtype="int32")
    words = layers.Embedding(VOCABULARY, WIDTH)(both)
    x, y = words[:, :length], words[:, length:]
    x = layers.Bidirectional(lstm())(x)
    x = lstm()(x)
    for _ in range(2):
        x = layers.Add()([x, lstm()(x)])
    y = lstm()(y)
    context = layers.Attention()([layers.Dense(WIDTH, use_bias=False)(y), x, layers.Dense(WIDTH, use_bias=False)(x)])
    y = lstm()(layers.Concatenate()([y, context]))
    for _ in range(2):
        y = layers.Add()([y, lstm()(layers.Concatenate()([y, context]))])
    logits = layers.Dense(VOCABULARY)(y)
    return keras.Model(both, layers.Activation("linear", dtype="float32")(logits), name="gnmt")


def lstm():
    """One layer."""
    return layers.LSTM(WIDTH, return_sequences=True)


def optimizer():
    return keras.optimizers.Adam(1e-3)
