"""One-dimensional convolutions on a waveform, several yes-or-no labels."""

import keras
from keras import layers

INPUT, TARGET = {"shape": (64, 1)}, {"shape": (3,), "dtype": "int32", "below": 2}
LOSS, METRIC, OPTIMIZER = "binary_crossentropy", "accuracy", "nadam"


def model(options):
    wave = keras.Input((64, 1))
    x = layers.SeparableConv1D(8, 5, strides=2, activation="relu")(wave)
    return keras.Model(wave, layers.Dense(3, activation="sigmoid")(layers.GlobalAveragePooling1D()(x)))
