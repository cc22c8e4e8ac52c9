"""Reads a file that is not there."""

import keras
import numpy as np

LOSS = "mean_squared_error"
OPTIMIZER = "sgd"


def data(options):
    return np.load("no_such_file.npy"), np.zeros(8)


def model(options):
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
