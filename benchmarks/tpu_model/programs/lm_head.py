"""Loss of a language model's last layer, and its gradient with respect to the hidden state alone."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import Work, mesh_of, placed, shape

WIDTH, VOCABULARY, SOFTCAP = 1024, 32768, 15.0


def loss(hidden: jax.Array, weights: jax.Array, tokens: jax.Array) -> jax.Array:
    """Mean cross-entropy of the next token, all in bfloat16."""
    logits = hidden @ weights
    logits = SOFTCAP * jnp.tanh(logits / SOFTCAP)
    log_p = jax.nn.log_softmax(logits[:, :-1], axis=-1)
    return -jnp.mean(jnp.take_along_axis(log_p, tokens[:, 1:, None], axis=-1))


def work(devices: Sequence[Any], row: Row) -> Work:
    """Hidden state [batch, sequence, 1024]."""
    mesh = mesh_of(devices)
    arguments = (
        shape(row.batch, row.sequence, WIDTH, dtype="bfloat16"),
        shape(WIDTH, VOCABULARY, dtype="bfloat16"),
        shape(row.batch, row.sequence, dtype="int32"),
    )
    return Work(jax.value_and_grad(loss), placed(arguments, mesh))
