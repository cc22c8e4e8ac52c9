"""A layer with a number format of its own."""

import keras
from keras import layers

INPUT, TARGET = {"shape": (8,)}, {"shape": (1,)}
LOSS, OPTIMIZER = "mse", "sgd"


def model(options):
    return keras.Sequential(
        [keras.Input((8,)), layers.Dense(8, dtype="bfloat16", name="short"), layers.Dense(1, dtype="float32")]
    )
