"""A recurrent model of Haiku's kind, whose batches begin with their time steps."""

import jax
import jax.numpy as jnp

TRAIN_BATCH_SIZE, EVAL_BATCH_SIZE = 4, 100


def loss(w, batch):
    state = jnp.zeros((batch["x"].shape[1], 2))
    states = jax.lax.scan(lambda state, x: (jnp.tanh(state + x @ w),) * 2, state, batch["x"])[1]
    return ((states.sum(-1) - batch["y"]) ** 2).mean()


update = jax.jit(lambda w, batch: w - jax.grad(loss)(w, batch))
w = jnp.ones((8, 2))
for step in range(50):
    w = update(w, {"x": jnp.ones((20, TRAIN_BATCH_SIZE, 8)), "y": jnp.ones((20, TRAIN_BATCH_SIZE))})
