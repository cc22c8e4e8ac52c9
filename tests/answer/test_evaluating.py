"""A script's evaluation in its hours: what it takes for each step, and the line that says so."""

from dataclasses import replace
from typing import Any

import pytest
from answer.test_answer import FAST, work
from beside import beside

from whichdevice.decide import Answer, Wants, facts
from whichdevice.decide.decide import Amount, decide, evaluated
from whichdevice.decide.words import as_json, notes
from whichdevice.forecast.lived import Habits
from whichdevice.models.script.found import Evaluation

CLEAN = Habits(1.0, 0.0, 0.0, 0.1, 1, 1)
AMOUNT = Amount(100_000, epochs=10)  # 1,000 steps of 100 examples
EACH = Evaluation(30, 100, 1)
ROW = replace(FAST, device_time=0.003)
FOUR = replace(ROW, devices=4)
BESIDE = beside(__file__)


def asked(*evaluations: Evaluation, lived: Habits | None = CLEAN, **more: Any) -> Answer:
    script = work(ROW, evaluations=evaluations, lived=lived, script_examples=10_000, **more)
    return decide(script, Wants(), AMOUNT)


@pytest.mark.parametrize("case", BESIDE["times"])
def test_evaluation_takes_a_part_of_a_steps_time_by_its_batches(case: str) -> None:
    evaluation, changes, amount, expected = BESIDE["times"][case]
    row = replace(ROW, **changes)
    script = work(row, evaluations=(replace(EACH, **evaluation),), script_examples=10_000)
    assert evaluated(script, row, replace(AMOUNT, **amount))[0] == pytest.approx(expected)


def test_the_hours_have_the_evaluation_with_the_interval_of_the_steps() -> None:
    plain, more = asked().pick, asked(replace(EACH, batches=300)).pick
    assert plain is not None and more is not None
    for name in ("begun", "begun_low", "begun_high"):
        assert getattr(more, name) == pytest.approx(2 * getattr(plain, name)), name


def test_a_slow_loader_feeds_the_evaluation_too() -> None:
    slow = {"pipeline_rate": 1000.0}  # 0.1 s a step
    plain, more = asked(**slow).pick, asked(replace(EACH, batches=50), **slow).pick
    assert plain and more and more.begun == pytest.approx(1.5 * (plain.begun or 0), rel=0.01)


def evaluation(answer: Answer) -> list[str]:
    return [line for line in notes(answer) if line.startswith("Evaluation")]


@pytest.mark.parametrize("case", BESIDE["lines"])
def test_one_line_says_what_is_counted_and_one_what_is_not(case: str) -> None:
    evaluations, expected = BESIDE["lines"][case]
    assert evaluation(asked(*(replace(EACH, **changes) for changes in evaluations))) == expected


def test_an_epoch_of_unknown_length_is_said_and_not_counted_as_nothing() -> None:
    script = work(ROW, evaluations=(EACH,), lived=CLEAN)
    found = evaluation(decide(script, Wants(), Amount(100_000, counted="steps")))
    assert found == ["Evaluation of unknown length is not counted."]


def test_the_facts_have_the_share_of_the_hours() -> None:
    besides = facts.evaluating(asked(EACH))
    assert besides is not None and besides["share"] == pytest.approx(0.1 / 1.1)
    assert as_json(asked(EACH))["evaluating"]["counted"][0]["batches"] == 30
    assert as_json(asked())["evaluating"] is None
