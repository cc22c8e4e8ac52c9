"""Hours of scripts that have what a lived training shows."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from beside import beside

from whichdevice.decide import Amount, AskedWork, Wants, facts
from whichdevice.decide.decide import Answer, decide
from whichdevice.decide.rows import FORECAST, MEASURED, Row
from whichdevice.decide.words import notes
from whichdevice.forecast.lived import Habits, decodes_images

BESIDE = beside(__file__)

HABITS = Habits(factor=1.5, kernel=-0.5, images=0.2, log_sd=0.4, reports=100, sources=50)
STEPS = Amount(1e7)
CARD = Row(
    "L4", "gpu", FORECAST, software="eager", chip="L4", step_time=0.1, device_time=0.1, log_sd_shared=0.1,
    log_sd_own=0.05, fits=True, rented=True, usd_per_hour=1.0, start_time=0.0, kernels=500.0,
)  # fmt: skip
HERE = Row("here", "cpu", MEASURED, chip="here", step_time=2.0, log_sd_own=0.01, fits=True, usd_per_hour=0.1)


def answer(*rows: Row, habits: Habits | None = HABITS, **known: Any) -> Answer:
    """The answer for a training of a hundred thousand steps of a hundred images."""
    work = AskedWork("net", "net.py", "train", 100, None, "image", 100.0, None, None, rows, lived=habits, **known)
    return decide(work, Wants(deadline=1e9), STEPS)


def test_hours_of_a_script_are_lived_hours_and_wider() -> None:
    clean, real = (answer(CARD, habits=habits).options[0] for habits in (None, HABITS))
    assert clean.seconds and clean.seconds_high and real.seconds and real.seconds_high
    assert real.seconds == pytest.approx(1.5 * clean.seconds, rel=0.05)
    assert real.seconds_high / real.seconds > clean.seconds_high / clean.seconds
    assert real.row.step_time == clean.row.step_time  # the table of steps has the clean one


def test_steps_of_short_kernels_and_of_images_that_are_decoded_take_longer() -> None:
    assert HABITS.times(0.1, 500) == pytest.approx(1.5)  # 200 µs each
    assert HABITS.times(0.1, 2000) == pytest.approx(3.0)
    assert HABITS.times(0.1, 500, images=90) == pytest.approx(1.5 * 10**0.2)  # 900 a second
    assert HABITS.times(10.0, 500) == 1.0  # a lived step holds the clean one
    short = replace(CARD, kernels=2000.0)
    clean, real = (answer(short, habits=habits).options[0].seconds for habits in (None, HABITS))
    assert clean and real and real == pytest.approx(3 * clean, rel=0.05)


def test_each_of_several_devices_decodes_its_part_of_the_images() -> None:
    one, four = (facts.lived_step(answer(replace(CARD, devices=devices), decodes=True)) for devices in (1, 4))
    assert one is not None and one["times"] == pytest.approx(1.5 * 11**0.2)
    assert four is not None and four["times"] == pytest.approx(1.5 * 3.5**0.2)


def test_images_that_a_loader_of_known_rate_decodes_count_once() -> None:
    fast = facts.lived_step(answer(CARD, decodes=True, pipeline_rate=1e6))
    assert fast is not None and fast["times"] == pytest.approx(1.5) and fast["prepared"] is None
    slow, plain = (answer(CARD, decodes=decodes, pipeline_rate=100.0).options[0] for decodes in (True, False))
    assert slow.seconds == plain.seconds


@pytest.mark.parametrize(("line", "decodes"), BESIDE["a script shows whether it decodes images of files"])
def test_a_script_shows_whether_it_decodes_images_of_files(tmp_path: Path, line: str, decodes: bool) -> None:
    (script := tmp_path / "train.py").write_text("import data\n")
    (beside := tmp_path / "data.py").write_text(line)
    assert decodes_images([script, beside]) is decodes


def test_a_file_that_is_no_python_shows_none(tmp_path: Path) -> None:
    (script := tmp_path / "train.py").write_text("not Python: ImageFolder")
    (table := tmp_path / "images.csv").write_text("ImageFolder")
    assert not decodes_images([script, table, tmp_path / "gone.py"])


def test_lived_hours_leave_nothing_out() -> None:
    left_out = "Not included: loading data, validation."
    assert left_out in notes(answer(CARD, habits=None)) and left_out not in notes(answer(CARD))


def test_what_was_measured_here_is_left_as_it_is() -> None:
    clean, real = (answer(HERE, CARD, habits=habits).here for habits in (None, HABITS))
    assert clean and real and clean.seconds == real.seconds


def test_a_note_and_a_fact_say_how_much_longer_a_script_takes() -> None:
    step = facts.lived_step(answer(CARD))
    assert step is not None and step["card"] == "L4" and step["times"] == pytest.approx(1.5)
    assert step["high"] / step["low"] == pytest.approx(math.exp(2 * 1.2816 * 0.4))
    assert facts.as_dict(answer(CARD))["lived_step"]["times"] == pytest.approx(1.5)
    assert "As scripts like this run: 1.5 times the clean step (0.9 to 2.5 in 8 of 10)." in notes(answer(CARD))
    assert facts.lived_step(answer(CARD, habits=None)) is None


def test_a_note_says_what_images_that_are_decoded_before_would_save() -> None:
    assert (
        "As scripts like this run: 2.4 times the clean step (1.5 to 4.0 in 8 of 10); "
        "with images decoded beforehand: 1.5 times." in notes(answer(CARD, decodes=True))
    )


def test_a_rough_time_has_its_interval_in_that_note() -> None:
    step = facts.lived_step(answer(replace(CARD, rough=True, log_sd_own=0.9)))
    [note] = [line for line in notes(answer(replace(CARD, rough=True, log_sd_own=0.9))) if "scripts" in line]
    assert step is not None and step["whole"] is not None and step["whole"][1] > 5 * step["whole"][0]
    assert note.endswith(" On L4 the whole takes 1.2–15 h in 8 of 10 cases.")
    assert (exact := facts.lived_step(answer(CARD))) is not None and exact["whole"] is None


def test_no_step_takes_less_than_a_clean_one() -> None:
    long = replace(CARD, step_time=4.0, device_time=4.0)
    assert "clean step (0.6 to 1.7 in 8 of 10); with images decoded beforehand: 1.0 times." in " ".join(
        notes(answer(long, decodes=True))
    )
