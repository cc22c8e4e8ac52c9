import jax
import jax.numpy as jnp
import tensorflow as tf

data = tf.data.Dataset.range(320).map(lambda place: tf.fill((8,), tf.cast(place, tf.float32)))
data = data.batch(16, drop_remainder=True).map(lambda x: {"x": x}).prefetch(1)
assert len(data) == 20 and data.element_spec["x"].shape == (16, 8)
step = jax.jit(lambda w, x: w - jax.grad(lambda w: (x @ w).mean())(w))
w = jnp.ones((8, 4))
def shuffled():
    return data.shuffle(4)
for epoch in range(3):
    for batch in data.as_numpy_iterator():
        w = step(w, jnp.asarray(batch["x"]))
