"""One target is no number."""

import keras
import numpy as np

LOSS, OPTIMIZER = "mse", "sgd"


def data(options):
    options.get("rate", 0.1)
    targets = np.zeros((200, 1))
    targets[70] = np.nan
    return np.zeros((200, 4)), targets


def model(options):
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
