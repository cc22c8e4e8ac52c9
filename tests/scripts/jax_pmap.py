"""An update on each of some devices, which share their gradients."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

num_epochs, batch_size = 6, 50
keys = jax.random.split(jax.random.key(0), 2)
params = [jax.random.normal(key, size) / 8 for key, size in zip(keys, ((64, 32), (32, 10)), strict=True)]
optimizer = optax.adam(1e-2)
state = optimizer.init(params)
images, labels = np.random.default_rng(0).random((500, 64), np.float32), np.arange(500) % 10


def predict(params, images):
    return jnp.tanh(images @ params[0]) @ params[1]


def loss(params, images, labels):
    return optax.softmax_cross_entropy_with_integer_labels(predict(params, images), labels).mean()


@partial(jax.pmap, axis_name="batch")
def update(params, state, images, labels):
    value, gradients = jax.lax.pmean(jax.value_and_grad(loss)(params, images, labels), axis_name="batch")
    changes, state = optimizer.update(gradients, state)
    return optax.apply_updates(params, changes), state, value


devices = jax.local_device_count()
params, state = jax.tree.map(lambda leaf: jnp.stack([leaf] * devices), (params, state))
for _ in range(num_epochs):
    for start in range(0, 500, batch_size):
        rows = slice(start, start + batch_size)
        batch = [part[rows].reshape(devices, -1, *part.shape[1:]) for part in (images, labels)]
        params, state, value = update(params, state, *batch)
        raise SystemExit("it trained")
