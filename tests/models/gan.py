"""A GAN with a train_step of its own, for TensorFlow and JAX: two networks, two optimisers."""

import keras
import numpy as np
from keras import layers, ops

NOISE = 4


class Gan(keras.Model):
    def __init__(self):
        super().__init__()
        self.discriminator = keras.Sequential([keras.Input((12,)), layers.Dense(8, activation="relu"), layers.Dense(1)])
        self.generator = keras.Sequential([keras.Input((NOISE,)), layers.Dense(8, activation="relu"), layers.Dense(12)])
        self.seed = keras.random.SeedGenerator(1)

    def compile(self, d_optimizer, g_optimizer):
        super().compile()
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer
        self.loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)

    def train_step(self, data):
        import tensorflow as tf

        real = data[0]
        count = ops.shape(real)[0]
        with tf.GradientTape() as tape:
            made = self.generator(keras.random.normal((count, NOISE), seed=self.seed))
            d_loss = self.loss_fn(ops.ones((count, 1)), self.discriminator(real))
            d_loss += self.loss_fn(ops.zeros((count, 1)), self.discriminator(made))
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights, strict=True))
        with tf.GradientTape() as tape:
            made = self.generator(keras.random.normal((count, NOISE), seed=self.seed))
            g_loss = self.loss_fn(ops.ones((count, 1)), self.discriminator(made))
        weights = self.generator.trainable_weights
        self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights, strict=True))
        return {"d_loss": d_loss, "g_loss": g_loss}


INPUT = {"shape": (12,)}


def model(options):
    gan = Gan()
    gan.compile(keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3))
    return gan


def data(options):
    return np.random.default_rng(1).normal(size=(40, 12))
