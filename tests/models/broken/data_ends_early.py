"""Yields fewer examples than it says."""

import keras
import numpy as np

EXAMPLES = 256
LOSS = "mean_squared_error"
OPTIMIZER = "sgd"


def data(options):
    for number in range(37):
        yield np.full(8, number, np.float32), np.zeros(1, np.float32)


def model(options):
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
