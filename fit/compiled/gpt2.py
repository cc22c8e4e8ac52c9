"""A decoder of GPT-2's shape on generated tokens, without dropout. GPT-2 small by default.

The head shares the embedding's weights.

Options: width, heads, layers and vocabulary; optimizer "adam" or "sgd".
"""

import keras
import numpy as np
from keras import layers, ops

from whichdevice.models.workloads.decoder import Positions, TiedEmbedding

LOSS = "sparse_categorical_crossentropy_from_logits"
BATCH_SIZE = 8
SEQUENCE_LENGTH = 1024
EXAMPLES = 1024
UNIT = "sequence"
SOURCE = "Radford et al., 2019"

VOCABULARY = 50257
chosen = {}  # what model(options) leaves for optimizer()


def data(options):
    """Random tokens and the ones that follow them."""
    random = np.random.default_rng(1)
    examples = max(EXAMPLES, options.batch_size * 8 // 7 + 1)
    length = options.sequence_length or SEQUENCE_LENGTH
    tokens = random.integers(0, options.get("vocabulary", VOCABULARY), (examples, length + 1), dtype=np.int32)
    return tokens[:, :-1], tokens[:, 1:]


def model(options):
    chosen["optimizer"] = options.get("optimizer", "adam")
    width = options.get("width", 768)
    heads = options.get("heads", 12)
    length = options.sequence_length or SEQUENCE_LENGTH
    tokens = keras.Input((length,), dtype="int32")
    embedding = TiedEmbedding(options.get("vocabulary", VOCABULARY), width)
    x = Positions(length)(embedding(tokens))
    for _ in range(options.get("layers", 12)):
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        x = layers.Add()([x, layers.MultiHeadAttention(heads, width // heads)(y, y, use_causal_mask=True)])
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        y = layers.Dense(width)(ops.gelu(layers.Dense(4 * width)(y), approximate=True))
        x = layers.Add()([x, y])
    logits = embedding(layers.LayerNormalization(epsilon=1e-5)(x), reverse=True)
    return keras.Model(tokens, layers.Activation("linear", dtype="float32")(logits), name="gpt2")


def optimizer():
    if chosen["optimizer"] == "sgd":
        return keras.optimizers.SGD(1e-2)
    return keras.optimizers.AdamW(6e-4, weight_decay=0.1)
