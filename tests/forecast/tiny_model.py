"""A model that compiles in a second: 64 numbers in, 64 out; `{broken: true}` does not trace."""

import keras

INPUT = {"shape": (64,), "dtype": "float32"}
TARGET = {"shape": (64,), "dtype": "float32"}
LOSS = "mean_squared_error"
OPTIMIZER = "sgd"
BATCH_SIZE = 64


def model(options):
    if options.get("broken", False):
        raise ValueError("no such layer")
    return keras.Sequential([keras.Input((64,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(64)])
