"""A recurrent network of two layers of 64 units on sequences of numbers, in Keras."""

import keras
from keras import layers

INPUT, TARGET = {"shape": (100, 16)}, {"shape": (), "dtype": "int32", "below": 4}
LOSS, OPTIMIZER, BATCH_SIZE = "sparse_categorical_crossentropy", "adam", 64


def model():
    return keras.Sequential(
        [layers.Input((100, 16)), layers.LSTM(64, return_sequences=True), layers.LSTM(64), layers.Dense(4, "softmax")]
    )
