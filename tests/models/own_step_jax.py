"""A functional model with a train_step of its own, written for JAX."""

import jax
import keras

INPUT, TARGET = {"shape": (8,)}, {"shape": (1,)}
LOSS, OPTIMIZER = "mse", "adam"


class Doubled(keras.Model):
    def train_step(self, state, data):
        trainable, held, optimizer, metrics = state
        x, y = data

        def loss(weights):
            prediction, after = self.stateless_call(weights, held, x, training=True)
            return 2 * keras.ops.mean(keras.ops.square(y - prediction)), after

        (value, held), gradients = jax.value_and_grad(loss, has_aux=True)(trainable)
        trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)
        return {"doubled_loss": value}, (trainable, held, optimizer, metrics)


def model(options):
    inputs = keras.Input((8,))
    return Doubled(inputs, keras.layers.Dense(1)(inputs))
