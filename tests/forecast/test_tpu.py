"""A TPU's first estimate, from a GPU's program or a trace."""

from dataclasses import replace

import pytest

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast import tpu
from whichdevice.forecast.targets import find_target
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


@pytest.mark.parametrize(
    ("sizes", "unit", "full"),
    [
        (((100, 784, 0.5), (100, 100, 0.5)), 128, 128),  # a hidden layer
        (((100, 400, 1.0), (10, 100, 0.0)), 128, 128),  # the gates of an LSTM are four times as wide
        (((192, 192, 1.0),), 256, 256),  # v6e multiplies 256 × 256
        (((256, 512, 1.0), (256, 256, 0.0)), 256, None),  # full
        (((784, 10, 1.0),), 128, None),  # inputs and classes are not for the model to choose
    ],
)
def test_a_width_that_fills_no_tile_has_the_next_one_that_does(sizes, unit, full):
    found = list(tpu.widths(replace(step(PRODUCT), widths=sizes), unit))
    assert [setting for _, setting, *_ in found] == ([full] if full else [])
    assert all(0 < saved < share <= 1 for *_, share, saved in found)


CYCLES = {  # of libtpu 0.0.42, for four layers of a width in training, in bfloat16 on 8,192 rows
    128: {
        64: 60159,
        100: 83627,
        128: 97871,
        192: 164451,
        256: 206878,
        300: 281427,
        384: 338494,
        500: 486533,
        512: 489666,
    },
    256: {64: 24877, 100: 28699, 128: 38323, 192: 38434, 256: 45736},
}


@pytest.mark.parametrize("unit", CYCLES)
def test_what_a_full_width_saves_is_what_the_compiler_says(unit):
    cycles = CYCLES[unit]
    for width in (width for width in cycles if width % unit):
        [(_, full, _, saved)] = tpu.widths(replace(step(PRODUCT), widths=((width, width, 1.0),)), unit)
        found = cycles[full] / full**2 / (cycles[width] / width**2)
        assert found / 1.35 < 1 - saved < found * 1.35, width


def test_a_narrow_width_is_a_cause_with_the_time_of_as_much_work():
    narrow = replace(step(PRODUCT), widths=((100, 100, 1.0),))
    [cause] = tpu.changes(narrow, ROW, 64)
    assert (cause["cause"], cause["width"], cause["setting"]) == ("width", 100, 128)
    assert (100 / 128) ** 2 < cause["time"] < tpu.WORTH  # not all of it is gained, by libtpu's own cycles


@pytest.mark.parametrize(("share", "tight"), [(0.3, False), (0.8, True), (1.2, True), (1.5, False)])
def test_an_estimate_near_the_memory_of_a_tpu_is_tight(share, tight):
    target = find_target("TPU v5e")
    assert tpu.is_tight(share * target.available(0), target) is tight
