"""A small convolutional network in Flax NNX."""

import jax
import optax
from flax import nnx

INPUT = {"shape": (28, 28, 1)}
TARGET = {"shape": (), "dtype": "int32", "below": 10}
LOSS = "cross_entropy"
METRIC = "accuracy"
BATCH_SIZE = 128
UNIT = "image"


class Net(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(1, 32, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(32, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rngs=rngs)
        self.out = nnx.Linear(32, 10, rngs=rngs)

    def __call__(self, x):
        x = jax.nn.relu(self.norm(self.conv(x)))
        return self.out(self.drop(x.mean((1, 2))))


def model():
    return Net(nnx.Rngs(0))


def optimizer():
    return optax.adam(1e-3)
