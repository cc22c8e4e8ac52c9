"""A small convolutional network on generated images."""

import keras
from keras import layers

INPUT = {"shape": (32, 32, 3), "dtype": "uint8"}  # of one example
TARGET = {"shape": (), "dtype": "int32", "below": 10}  # a class from 0 to 9
LOSS = "sparse_categorical_crossentropy"
METRIC = "accuracy"
BATCH_SIZE = 64
UNIT = "image"


def model(options):
    width = options.get("width", 32)
    return keras.Sequential(
        [
            keras.Input(INPUT["shape"], dtype="uint8"),
            layers.Rescaling(1 / 255),
            layers.Conv2D(width, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(10, activation="softmax", dtype="float32"),
        ]
    )


def optimizer():
    return keras.optimizers.Adam(1e-3)
