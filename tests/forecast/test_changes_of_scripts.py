"""What follows from a script's one recording: gradient checkpointing, and weights of 16 bits."""

from dataclasses import replace

import pytest

from whichdevice.base.errors import StudyError
from whichdevice.forecast.torch.memory import HALF, LIGHT
from whichdevice.forecast.torch.recorded import CHANGES
from whichdevice.forecast.torch.step import Blocks, Trace
from whichdevice.forecast.work import Item, Work

PRODUCTS = Item("product", "float32", 100.0, 10.0, 2)
WORK = Work("gpu", (PRODUCTS, Item("memory", "float32", 0.0, 8.0, 4), Item("optimizer", "float32", 0.0, 20.0, 1)))
MEMORY = {"weights": 10.0, "gradients": 10.0, "optimizer": 20.0, "activations": 60.0, "working": 66.0, "update": 2.0}
BLOCKS = Blocks(Work("gpu", (replace(PRODUCTS, count=1),)), kept=40.0, largest=10.0, early=66.0, late=58.0)
TRACE = Trace(WORK, WORK, MEMORY | {"early": 96.0, "late": 80.0, "passes": 96.0, "peak": 96.0}, 3, 3,
              blocks=BLOCKS, single=True)  # fmt: skip


def test_checkpointing_runs_blocks_again_and_holds_what_one_of_them_keeps():
    light = CHANGES[LIGHT](TRACE)
    assert light.work.operations == TRACE.work.operations + BLOCKS.work.operations == light.fused.operations
    assert (light.memory["peak"], light.memory["activations"], light.memory["working"]) == (66, 20, 36)
    assert CHANGES[LIGHT](light) == light  # nothing is left to run again


def test_floats_of_16_bits_take_half_of_all_bytes():
    half = CHANGES[HALF](TRACE)
    assert {part: 2 * nbytes for part, nbytes in half.memory.items()} == TRACE.memory
    assert 2 * half.work.bytes == TRACE.work.bytes and half.work.operations == TRACE.work.operations
    assert {item.precision for item in half.work.items} == {"half"}
    assert CHANGES[LIGHT](half).memory["peak"] == 33


def test_a_mixed_step_keeps_its_activations_and_loses_the_copies_of_its_weights():
    items = (replace(PRODUCTS, precision="half"), *WORK.items[1:])
    half = CHANGES[HALF](replace(TRACE, work=replace(WORK, items=items)))
    assert (half.memory["weights"], half.memory["optimizer"], half.memory["activations"]) == (5, 10, 55)
    assert half.memory["early"] == 96 - 5 - 5 - 10  # copies, weights and state
    assert half.work.items[0] == items[0]


def test_weights_that_are_not_all_float32_stay_as_they_are():
    with pytest.raises(StudyError):
        CHANGES[HALF](replace(TRACE, single=False))
