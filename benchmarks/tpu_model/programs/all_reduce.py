"""The sum over all devices of an array that is divided by rows."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import P, Work, mesh_of, placed, shape


def work(devices: Sequence[Any], row: Row) -> Work:
    """[N, N] bfloat16 with N = row.batch."""
    mesh = mesh_of(devices)
    function = jax.shard_map(partial(jax.lax.psum, axis_name="batch"), mesh=mesh, in_specs=P("batch"), out_specs=P())
    return Work(function, (placed(shape(row.batch, row.batch, dtype="bfloat16"), mesh, P("batch")),))
