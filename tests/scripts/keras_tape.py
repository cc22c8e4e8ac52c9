"""A loop of its own, of TensorFlow alone."""

import keras
import tensorflow as tf

model, optimizer = keras.Sequential([keras.layers.Dense(1)]), keras.optimizers.Adam()
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.zeros((8, 4))))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
