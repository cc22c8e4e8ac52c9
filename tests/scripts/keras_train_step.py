"""A model with a `train_step` of its own."""

import keras
import numpy as np
import tensorflow as tf


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.dense(x) - y))
        gradients = tape.gradient(loss, self.dense.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.dense.trainable_variables, strict=True))
        return {"loss": loss}


model = Own()
model.compile("adam")
model.fit(np.zeros((64, 4)), np.zeros((64, 1)), batch_size=8, epochs=3)
