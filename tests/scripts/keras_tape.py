"""A loop of its own, of TensorFlow alone, in 16 bits with a scaled loss, for the GPUs that there are."""

import keras
import tensorflow as tf

keras.mixed_precision.set_global_policy("mixed_float16")
strategy = tf.distribute.MirroredStrategy()
data = tf.data.Dataset.from_tensor_slices((tf.zeros((64, 4)), tf.zeros((64, 1)))).batch(8)
data = strategy.experimental_distribute_dataset(data)
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())
seen = keras.metrics.Mean()


def one(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.cast(model(x, training=True), tf.float32) - y))
        scaled = optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    seen.update_state(loss)
    return loss


@tf.function
def train_step(batch):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(one, args=batch), axis=None)


for _ in range(3):
    for batch in data:
        train_step(batch)
