"""Raises an error while it is imported."""

import keras

INPUT = {"shape": (8,)}
TARGET = {"shape": (1,)}
LOSS = "mean_squared_error"
OPTIMIZER = "sgd"
WIDTHS = [size / 0 for size in (1, 2)]


def model(options):
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
