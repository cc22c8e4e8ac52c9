"""It asks a person who is not there."""

import keras

LOSS, OPTIMIZER = "mse", "sgd"
RATE = "options.rate"  # as all of these files


def data(options):
    options.get("rate", 0.1)
    count = int(input())
    return [[0.0] * 4] * count, [[0.0]] * count


def model(options):
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
