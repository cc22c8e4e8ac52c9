"""A TPU's first estimate, from a GPU's program or a trace."""

from dataclasses import replace

import pytest

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast import tpu
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.work import Item, Work

ROW = hardware_rows()["TPU v5e"]
PRODUCT = Item("product", "half", 2 * 4096**3, 3 * 4096**2 * 2, 1)
SMALL = Item("memory", "", 0.0, 1e6, 50)
STEP = Item("recurrent", "half", 2e6, 1e6, 400)


def step(*items: Item) -> Work:
    return tpu.of_program(Work("gpu", items))


def test_small_arrays_stay_on_the_chip_and_large_ones_do_not():
    small, large = step(SMALL, replace(SMALL, bytes=3e9, count=1)).items
    assert small.bytes < 0.05 * SMALL.bytes and large.bytes > 0.95 * 3e9


def test_the_estimate_and_a_trace_have_software_of_their_own():
    names = [forecast_step(work, ROW).software for work in (step(PRODUCT), tpu.of_trace(Work("gpu", (PRODUCT,))))]
    assert names == ["xla of a GPU on TPU", "PyTorch on TPU"]


def test_a_trace_has_a_wider_interval_than_a_program():
    program, trace = (forecast_step(work, ROW) for work in (step(PRODUCT), tpu.of_trace(Work("gpu", (PRODUCT,)))))
    assert trace.high / trace.low > program.high / program.low


def test_kernels_of_time_steps_take_a_time_of_their_own():
    parts = forecast_step(step(PRODUCT, STEP), ROW).parts
    assert parts["launch of recurrent"] > parts["launch"] > 0


@pytest.mark.parametrize(
    ("items", "batch", "cause"),
    [
        ((replace(PRODUCT, precision="float32"),), 64, "float32"),
        ((STEP,), 64, "time steps"),
        ((replace(PRODUCT, operations=1e6, bytes=1e4, count=400),), 2, "batch"),
        ((PRODUCT,), 64, None),
    ],
)
def test_the_strongest_cause_of_idle_matrix_units_comes_first_with_what_to_set(items, batch, cause):
    causes = tpu.changes(step(*items), ROW, batch)
    assert [one["cause"] for one in causes[:1]] == ([cause] if cause else [])
    assert all(0 < one["time"] <= tpu.WORTH and 0 < one["share"] <= 1 for one in causes)


def test_the_ends_of_a_tpus_memory_are_on_both_sides_of_its_estimate():
    low, high = tpu.ends(100.0)
    assert low == pytest.approx(77, abs=1) and high == pytest.approx(143, abs=1)
