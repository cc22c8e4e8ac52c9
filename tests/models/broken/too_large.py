"""Has a million million weights."""

import keras

INPUT = {"shape": (1_000_000,)}
TARGET = {"shape": (1_000_000,)}
LOSS = "mean_squared_error"
OPTIMIZER = "sgd"
EXAMPLES = 16
BATCH_SIZE = 2


def model(options):
    return keras.Sequential([keras.Input((1_000_000,)), keras.layers.Dense(1_000_000)])
