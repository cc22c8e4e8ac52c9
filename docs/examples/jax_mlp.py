"""A small network in plain JAX: its parameters, and the function that applies them."""

import jax
from jax import numpy as jnp

INPUT = {"shape": (784,)}
TARGET = {"shape": (), "dtype": "int32", "below": 10}
LOSS = "cross_entropy"
METRIC = "accuracy"
BATCH_SIZE = 256
SIZES = (784, 512, 10)


def model():
    keys = jax.random.split(jax.random.key(0), len(SIZES) - 1)
    parameters = [
        {"kernel": jax.random.normal(key, (taken, given)) * (2 / taken) ** 0.5, "bias": jnp.zeros(given)}
        for key, taken, given in zip(keys, SIZES[:-1], SIZES[1:], strict=True)
    ]

    def apply(parameters, inputs):
        *hidden, last = parameters
        for layer in hidden:
            inputs = jax.nn.relu(inputs @ layer["kernel"] + layer["bias"])
        return inputs @ last["kernel"] + last["bias"]

    return parameters, apply


class Momentum:
    """What optax offers, so that this file needs no optax: optax.adam(1e-3) would do."""

    def init(self, parameters):
        return jax.tree.map(jnp.zeros_like, parameters)

    def update(self, gradients, state, parameters=None):
        state = jax.tree.map(lambda kept, each: 0.9 * kept + each, state, gradients)
        return jax.tree.map(lambda each: -0.01 * each, state), state


def optimizer():
    return Momentum()
