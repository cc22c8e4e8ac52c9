"""Two inputs as a tuple, one shared network."""

import keras
from keras import layers, ops

INPUT = ({"shape": (6,)}, {"shape": (6,)})
TARGET = {"shape": (1,)}
LOSS, OPTIMIZER = "mean_squared_error", "adam"


def model(options):
    first, second = keras.Input((6,)), keras.Input((6,))
    shared = layers.Dense(4)
    distance = ops.sum(ops.square(shared(first) - shared(second)), axis=-1, keepdims=True)
    return keras.Model([first, second], distance)
