"""A square product whose operands are divided along the contraction: the result needs a reduction over all devices."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import P, Work, mesh_of, placed, shape


def work(devices: Sequence[Any], row: Row) -> Work:
    """The partitioner chooses where the result lies, as in the published script."""
    mesh = mesh_of(devices)
    operand = shape(row.batch, row.batch, dtype="bfloat16")
    return Work(jnp.matmul, (placed(operand, mesh, P(None, "batch")), placed(operand, mesh, P("batch"))))
