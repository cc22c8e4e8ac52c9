"""Has a layer that only JAX can compute."""

import keras

INPUT = {"shape": (8,)}
TARGET = {"shape": (1,)}
LOSS = "mean_squared_error"
OPTIMIZER = "sgd"


class Cumulative(keras.layers.Layer):
    def call(self, inputs):
        import jax

        return jax.lax.associative_scan(jax.numpy.add, inputs, axis=1)


def model(options):
    return keras.Sequential([keras.Input((8,)), Cumulative(), keras.layers.Dense(1)])
