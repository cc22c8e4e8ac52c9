"""Frames one after the other: TimeDistributed convolutions and a recurrent layer."""

import keras
from keras import layers

INPUT, TARGET = {"shape": (4, 8, 8, 1)}, {"shape": (), "dtype": "int32", "below": 2}
LOSS, OPTIMIZER = "sparse_categorical_crossentropy", "adam"


def model(options):
    frames = keras.Input((4, 8, 8, 1))
    x = layers.TimeDistributed(layers.Conv2D(4, 3, activation="relu"))(frames)
    x = layers.GRU(4)(layers.TimeDistributed(layers.GlobalMaxPooling2D())(x))
    return keras.Model(frames, layers.Dense(2, activation="softmax")(x))
