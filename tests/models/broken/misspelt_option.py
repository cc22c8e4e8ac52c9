"""Reads another option than the config gives it."""

import keras

INPUT = {"shape": (8,)}
TARGET = {"shape": (1,)}
LOSS = "mean_squared_error"


def model(options):
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])


def optimizer(options):
    return keras.optimizers.SGD(options.get("learning_rate", 0.01))
