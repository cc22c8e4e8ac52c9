"""Gives floats where the loss needs class numbers."""

import keras

INPUT = {"shape": (8,)}
TARGET = {"shape": (), "dtype": "float32"}
LOSS = "sparse_categorical_crossentropy"
OPTIMIZER = "sgd"


def model(options):
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, activation="softmax")])
