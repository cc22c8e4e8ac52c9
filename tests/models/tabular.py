"""Regression on a table."""

import keras

INPUT, TARGET = {"shape": (12,)}, {"shape": (1,)}
LOSS, METRIC, OPTIMIZER = "mean_squared_error", "mean_absolute_error", "adam"


def model(options):
    return keras.Sequential([keras.Input((12,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
