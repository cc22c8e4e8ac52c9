"""A recommender of two towers: users and items, a number for each pair."""

import keras
from keras import layers

INPUT = {
    "user": {"shape": (), "dtype": "int32", "below": 100},
    "item": {"shape": (), "dtype": "int32", "below": 200},
}
TARGET = {"shape": (1,), "dtype": "int32", "below": 2}
LOSS, METRIC, OPTIMIZER = "binary_crossentropy", "accuracy", "adam"


def tower(name, size):
    number = keras.Input((), dtype="int32", name=name)
    return number, layers.Dense(8)(layers.Embedding(size, 16)(number))


def model(options):
    (user, left), (item, right) = tower("user", 100), tower("item", 200)
    score = layers.Activation("sigmoid")(layers.Dot(1)([left, right]))
    return keras.Model({"user": user, "item": item}, score)
