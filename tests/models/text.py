"""Text with a mask: tokens and mask in a dict, data of the file's own."""

import keras
import numpy as np
from keras import layers, ops

LOSS, METRIC, OPTIMIZER, BATCH_SIZE = "binary_crossentropy", "accuracy", "adam", 8


def model(options):
    tokens = keras.Input((12,), dtype="int32", name="tokens")
    mask = keras.Input((12,), dtype="int32", name="mask")
    share = ops.expand_dims(ops.cast(mask, "float32"), -1)
    x = ops.sum(layers.Embedding(50, 8)(tokens) * share, axis=1) / ops.sum(share, axis=1)
    return keras.Model([tokens, mask], layers.Dense(1, activation="sigmoid")(x))


def data(options):
    random = np.random.default_rng(1)
    tokens, lengths = random.integers(0, 50, (64, 12)), random.integers(3, 12, 64)
    mask = np.arange(12) < lengths[:, None]
    return {"tokens": tokens, "mask": mask}, (tokens[:, :1] > 25).astype("int32")
