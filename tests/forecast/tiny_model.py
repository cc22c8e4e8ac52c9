"""A model that compiles in a second: 64 numbers in and out; `{broken: true}` fails to build, `{untraceable: true}` to trace."""

import keras


class Branching(keras.layers.Layer):
    """Asks for a value while it is traced."""

    def call(self, x):
        return x if float(keras.ops.sum(x)) > 0 else -x


INPUT = {"shape": (64,), "dtype": "float32"}
TARGET = {"shape": (64,), "dtype": "float32"}
LOSS = "mean_squared_error"
OPTIMIZER = "sgd"
BATCH_SIZE = 64


def model(options):
    if options.get("broken", False):
        raise ValueError("no such layer")
    first = [Branching()] if options.get("untraceable", False) else []
    own = [*first, keras.layers.Dense(512, activation="relu"), keras.layers.Dense(64)]
    return keras.Sequential([keras.Input((64,)), *own])
