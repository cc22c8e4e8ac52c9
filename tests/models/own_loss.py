"""Loss, metric and optimiser with a schedule as functions of the file."""

import keras
from keras import ops

INPUT, TARGET = {"shape": (5,)}, {"shape": (2,)}


def model(options):
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])


def loss(target, prediction):
    return ops.mean(ops.log(1 + ops.square(target - prediction)), axis=-1)


def metric(target, prediction):
    return ops.mean(ops.abs(target - prediction))


def optimizer():
    rate = keras.optimizers.schedules.CosineDecay(1e-2, 100)
    return keras.optimizers.AdamW(rate, weight_decay=1e-4, clipnorm=1.0)
