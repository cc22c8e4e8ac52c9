"""A model that comes compiled: loss, optimiser and metrics are those of its compile."""

import keras

INPUT, TARGET = {"shape": (6,)}, {"shape": (1,), "dtype": "int32", "below": 2}


def model(options):
    built = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, activation="sigmoid")])
    built.compile(
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
        loss=keras.losses.BinaryCrossentropy(label_smoothing=0.1),
        metrics=[keras.metrics.AUC(name="auc"), "accuracy"],
    )
    return built
