"""One trunk with two heads: losses, their weights and metrics by output."""

import keras
from keras import layers

INPUT = {"shape": (10,)}
TARGET = {"kind": {"shape": (), "dtype": "int32", "below": 3}, "size": {"shape": (1,)}}
LOSS = {"kind": "sparse_categorical_crossentropy", "size": "mean_squared_error"}
LOSS_WEIGHTS = {"kind": 1.0, "size": 0.5}
METRIC = {"kind": "accuracy"}
OPTIMIZER = "adam"


def model(options):
    table = keras.Input((10,))
    trunk = layers.Dense(16, activation="relu")(table)
    heads = {"kind": layers.Dense(3, activation="softmax")(trunk), "size": layers.Dense(1)(trunk)}
    return keras.Model(table, heads)
