"""Takes the logarithm of a negative number."""

import keras

INPUT = {"shape": (8,)}
TARGET = {"shape": (1,)}


def optimizer(options):
    return keras.optimizers.SGD(options.get("rate", 0.01))


def model(options):
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])


def loss(target, prediction):
    return keras.ops.log(-1.0 - keras.ops.square(target - prediction))
