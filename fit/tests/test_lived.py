"""Trainings as people lived them: reports with their sources, and rules that were tested on sources left out."""

from functools import cache

import pytest
from fit import lived

from whichdevice.forecast.lived import read_habits

beside = cache(lived.beside)


@cache
def scores() -> dict[str, dict[str, float]]:
    """How well each rule forecasts the sources that it does not know."""
    return lived.scored(lived.Reports.of(beside()), [row.line.group for row in beside()])


def test_every_report_has_a_source_and_a_device_of_the_sheet() -> None:
    lines = lived.published()
    assert len(lines) >= 80 and len({line.group for line in lines}) >= 50
    assert len({line.id for line in lines}) == len(lines)
    assert all(line.where and line.seconds > 0 and line.steps > 0 for line in lines)


def test_evaluations_of_known_size_are_no_part_of_a_step() -> None:
    lines = {line.id: line for line in lived.published()}
    known, unknown = lines["keras_examples_1"], lines["virtex_1"]  # 10,000 images each 50,000; of no known size
    assert known.step == pytest.approx(35 / 1563 / (1 + 0.2 / 3)) and unknown.step == 135_000 / 500_000
    assert all(line.includes or not line.evaluated for line in lines.values())


def test_the_habits_are_those_of_the_reports() -> None:
    habits, rows = read_habits(), beside()
    assert len(rows) >= 80 and all(row.clean > 0 for row in rows)
    assert habits.reports == len(rows) and habits.sources == len({row.line.group for row in rows})
    assert habits.factor > 1 and habits.kernel < 0 < habits.images and 0 < habits.log_sd < 1


def test_a_source_that_is_left_out_is_mostly_inside_the_interval_that_the_others_state() -> None:
    score = scores()["kernels and images"]
    assert score["median_error"] <= 0.35 and 0.75 <= score["held"] <= 0.9


@pytest.mark.parametrize("naive", ["naive: one factor for all", "naive: the clean step"])
def test_what_a_step_shows_beats_the_naive_rules(naive: str) -> None:
    knowing, rule = scores()["kernels and images"], scores()[naive]
    assert knowing["median_error"] < rule["median_error"] and knowing["stated"] < rule["stated"]
