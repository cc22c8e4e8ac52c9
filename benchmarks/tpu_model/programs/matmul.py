"""Square products, each device its own: bfloat16, or on v2 a chain of float32 ones with bfloat16 products inside."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import Work, mesh_of, placed, shape

CHAIN = 100  # products of the Colab notebook in one call


def chain(x: jax.Array, y: jax.Array) -> jax.Array:
    """The sum over x·y·y·…"""
    return jax.lax.fori_loop(0, CHAIN, lambda _, x: x @ y, x).sum()


def work(devices: Sequence[Any], row: Row) -> Work:
    """x·y with N = row.batch."""
    mesh = mesh_of(devices)
    chained = row.topology.startswith("v2")
    operand = placed(shape(row.batch, row.batch, dtype="float32" if chained else "bfloat16"), mesh)
    return Work(chain if chained else jnp.matmul, (operand, operand), steps=CHAIN if chained else 1)
