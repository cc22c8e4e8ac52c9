"""Data as a generator without an end: EXAMPLES says how many are read."""

import keras
import numpy as np

LOSS, OPTIMIZER, EXAMPLES = "mse", "adam", 64


def model(options):
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)])


def data(options):
    random = np.random.default_rng(1)
    while True:
        numbers = random.random(5)
        yield numbers, numbers[:1]
