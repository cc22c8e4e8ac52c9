"""Builds a model that Keras refuses."""

import keras

INPUT = {"shape": (8,)}
TARGET = {"shape": (1,)}
LOSS = "mean_squared_error"
OPTIMIZER = "sgd"


def model(options):
    return keras.Sequential([keras.Input((8,)), keras.layers.Conv2D(4, 3), keras.layers.Dense(1)])
