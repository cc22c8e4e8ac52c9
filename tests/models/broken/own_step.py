"""A train_step that only shows when the model is made."""

import keras

INPUT, TARGET = {"shape": (4,)}, {"shape": (1,)}
LOSS, OPTIMIZER = "mse", "sgd"


def model(options):
    options.get("rate", 0.1)
    inputs = keras.Input((4,))
    kind = type("Own", (keras.Model,), {"train_step": lambda self, *data: super(kind, self).train_step(*data)})
    return kind(inputs, keras.layers.Dense(1)(inputs))
