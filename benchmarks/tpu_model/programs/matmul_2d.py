"""The products of a feed-forward block on a 4 × 2 mesh: batch over one axis, columns over the other."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import P, Work, mesh_of, placed, shape

WIDTH, HIDDEN = 8192, 32768


def work(devices: Sequence[Any], row: Row) -> Work:
    """[batch, sequence, 8192] × [8192, 32768]."""
    mesh = mesh_of(devices, data=4, model=2)
    x = placed(shape(row.batch, row.sequence, WIDTH, dtype="bfloat16"), mesh, P("data"))
    weights = placed(shape(WIDTH, HIDDEN, dtype="bfloat16"), mesh, P(None, "model"))
    return Work(jnp.matmul, (x, weights))
