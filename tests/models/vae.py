"""A variational autoencoder: a subclass of Model with a compute_loss of its own and no targets."""

import keras
import numpy as np
from keras import layers, ops


class Vae(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = layers.Dense(4), layers.Dense(12, activation="sigmoid")
        self.seed = keras.random.SeedGenerator(1)

    def call(self, inputs):
        mean, spread = ops.split(self.encoder(inputs), 2, axis=-1)
        drawn = mean + ops.exp(spread / 2) * keras.random.normal(ops.shape(mean), seed=self.seed)
        return {"image": self.decoder(drawn), "mean": mean, "spread": spread}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        mean, spread = y_pred["mean"], y_pred["spread"]
        likeness = ops.mean(ops.square(x - y_pred["image"]))
        return likeness - 0.01 * ops.mean(1 + spread - ops.square(mean) - ops.exp(spread))


INPUT = {"shape": (12,)}


def model(options):
    vae = Vae()
    vae.compile(optimizer="adam")
    return vae


def data(options):
    return np.random.default_rng(1).random((40, 12))
