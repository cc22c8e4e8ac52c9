"""Numbers and categories side by side."""

import keras
from keras import layers

INPUT = {
    "numbers": {"shape": (6,)},
    "category": {"shape": (3,), "dtype": "int32", "below": 10},
}
TARGET = {"shape": (1,)}
LOSS, METRIC, OPTIMIZER = "mean_squared_error", "mean_absolute_error", "adam"


def model(options):
    numbers, category = keras.Input((6,), name="numbers"), keras.Input((3,), dtype="int32", name="category")
    deep = layers.Dense(8, activation="relu")(layers.Flatten()(layers.Embedding(10, 4)(category)))
    return keras.Model([numbers, category], layers.Dense(1)(layers.Concatenate()([numbers, deep])))
