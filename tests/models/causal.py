"""A small decoder: the next token at every place."""

import keras
from keras import layers

TOKENS = {"shape": (8,), "dtype": "int32", "below": 20}
INPUT = TARGET = TOKENS
LOSS, METRIC, OPTIMIZER, UNIT = "sparse_categorical_crossentropy_from_logits", "accuracy", "adamw", "sequence"


def model(options):
    tokens = keras.Input((8,), dtype="int32")
    x = layers.Embedding(20, 8)(tokens)
    x = x + layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    return keras.Model(tokens, layers.Dense(20)(x))
