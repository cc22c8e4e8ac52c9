"""How to run the pick: which batch, in how many passes, with checkpointing."""

from dataclasses import replace
from typing import Any

import pytest

from whichdevice.decide import Answer, Wants
from whichdevice.decide.decide import Amount, decide
from whichdevice.decide.rows import FORECAST, AskedWork, Price, Row
from whichdevice.decide.words import as_json, notes

ROW = Row(
    "A", "gpu", FORECAST, step_time=1.0, chip="A", usd_per_hour=1.0, rented=True, price=Price("on_demand", "Cloud"),
    precision="bfloat16", software="eager", pass_batch=16,
)  # fmt: skip


def passes(*sizes: tuple[int, float], light: bool = False) -> tuple[dict[str, Any], ...]:
    return tuple({"batch": n, "checkpointing": light, "memory_needed": 1e9 * n, "time": time} for n, time in sizes)


SIZES = passes((4, 2.0), (16, 1.0), (64, 0.6), (128, 0.505), (256, 0.5), (512, 0.5))


def answer(row: Row, batch: int = 16, data: float = 1e5, **work: Any) -> Answer:
    whole = AskedWork("net", "net.py", "train", batch, None, "image", float(batch), None, None, (row,), **work)
    return decide(whole, Wants(), Amount(10 * data, epochs=10))


def line(asked: Answer) -> str:
    return next((note for note in notes(asked) if note.startswith("Run it as")), "")


def test_the_smallest_batch_that_is_as_fast_as_any() -> None:
    expected = "Run it as: batch 128, bfloat16, no checkpointing: 0.51 times the time of an example; up to 512 fit."
    assert line(answer(replace(ROW, passes=SIZES))) == expected


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (64, "batch 64, bfloat16"),
        (1024, "batch 128 × 8, bfloat16"),
        (48, "batch 48, bfloat16"),
        (687, "batch 229 × 3"),
        (10**12, "batch 128 × 7,812,500,000"),
    ],
)
def test_a_batch_that_does_not_fit_is_taken_in_passes_that_divide_it(batch: int, expected: str) -> None:
    assert expected in line(answer(replace(ROW, passes=SIZES), batch))


def test_several_devices_share_a_batch() -> None:
    two = replace(ROW, devices=2, pass_batch=8, passes=SIZES)
    assert line(answer(two)).startswith("Run it as: batch 256, bfloat16") and "up to 1,024 fit" in line(answer(two))
    assert "batch 256 × 12, bfloat16" in line(answer(two, 3072))


def test_no_batch_is_larger_than_the_data() -> None:
    assert "batch 100, bfloat16, no checkpointing: 0.53 times" in line(answer(replace(ROW, passes=SIZES), data=100))
    assert "batch 16, bfloat16, no checkpointing; up to" in line(answer(replace(ROW, passes=SIZES), data=10))


def test_checkpointing_is_taken_where_it_is_faster_and_workers_are_named() -> None:
    both = (*passes((16, 1.0)), *passes((64, 0.8), light=True))
    asked = answer(replace(ROW, passes=both), pipeline_rate=1e4, pipeline_workers=4, written_rate=1e4)
    assert line(asked).startswith("Run it as: batch 64, bfloat16, gradient checkpointing, 4 workers to load data: 0.80")


def test_a_step_in_passes_says_so_and_one_as_it_was_asked_for_says_nothing() -> None:
    assert line(answer(ROW)) == ""
    assert line(answer(ROW, 64)) == "Run it as: batch 16 × 4, bfloat16, no checkpointing."
    assert as_json(answer(ROW, 64))["running"]["passes"] == 4
