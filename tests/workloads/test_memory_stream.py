"""A memory stream moves what it says, comes back to where it was and holds no memory before it is placed."""

import numpy as np
import pytest

from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options


def stream(precision: str = "float32", size: int = 3):
    return Model.read("memory_stream").workload(Options(size, precision))


@pytest.mark.parametrize(("precision", "width"), [("float32", 4), ("bfloat16", 2)])
def test_batch_size_is_mebibytes_of_each_array(precision: str, width: int) -> None:
    workload = stream(precision)
    state, operands = workload.operands(np.random.default_rng(1))
    assert list(state.shape) == list(operands["b"].shape) == workload.input_shape
    assert state.size * width == 3 * 2**20
    assert workload.bytes_per_step == 3 * 3 * 2**20  # two read, one written
    assert workload.units_per_step == pytest.approx(workload.bytes_per_step / 1e9)
    assert workload.flops_per_step == state.size


def test_arrays_take_memory_only_once_they_are_placed() -> None:
    state, _ = stream(size=2048).operands(np.random.default_rng(1))
    assert state.base is not None and state.strides[0] == 0
