"""Classes as one-hot targets."""

import keras

INPUT, TARGET = {"shape": (8,)}, {"shape": (4,)}
LOSS, METRIC, OPTIMIZER = "categorical_crossentropy", "accuracy", "adam"


def model():
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, activation="softmax")])
