"""Scripts with a batch on each GPU: rows of n GPUs take n times the batch; examples or steps of the whole are kept."""

import json
from dataclasses import replace
from typing import Any

import pytest
from answer.test_answer import device, here, work
from answer.test_rows import T4, answered

from whichdevice.decide import Answer, Wants
from whichdevice.decide.decide import Amount, decide, evaluated
from whichdevice.decide.facts import each_gpu, several
from whichdevice.decide.words import as_json, cells, notes, rate_words, title
from whichdevice.forecast.answer import Forecast
from whichdevice.forecast.tpu import PORTED
from whichdevice.models.script.found import Evaluation

ONE = device("H100", 0.01, 3.0, spread=0.0, own=0.0)
EIGHT = replace(device("8 × H100", 0.0125, 24.0, spread=0.0, own=0.0), devices=8, chip="H100")
EXAMPLES = 8e8  # a million batches of 100 on eight devices
GROWN = {"fixed": "examples"}


def forecast(devices: int, **more: Any) -> Forecast:
    """Of a step of 100 examples on each device, which takes a little longer on several."""
    step = 0.04 * (1 + devices / 80)
    return replace(
        T4, devices=devices, batch_size=100 * devices, step_time=step, throughput=100 * devices / step, **more
    )


def whole(*rows: Any, **more: Any) -> Answer:
    return decide(work(*rows, **(GROWN | more)), Wants(deadline=9e9), Amount(EXAMPLES))


def test_eight_gpus_with_a_batch_each_make_an_eighth_of_the_steps_of_one() -> None:
    both = {option.device: option.begun for option in whole(ONE, EIGHT).options}
    seconds = {"H100": EXAMPLES / 100 * 0.01, "8 × H100": EXAMPLES / 800 * 0.0125}
    assert both == pytest.approx(seconds, rel=1e-3)
    shared = {option.device: option.begun for option in whole(ONE, EIGHT, fixed="batch").options}
    assert shared["8 × H100"] == pytest.approx(EXAMPLES / 100 * 0.0125, rel=1e-3)


def test_a_port_to_another_number_of_tpu_chips_makes_no_answer_by_itself() -> None:
    port = forecast(1, device="TPU v5e", kind="tpu", chip="TPU v5e", software=PORTED)
    [piece] = answered(port, forecast(8), every_batch=True, fixed="steps")
    assert [row.device for row in piece.rows] == ["8 × T4"]


def test_a_line_says_how_the_batch_grows() -> None:
    grown = whole(ONE, EIGHT)
    assert notes(grown)[0] == "Each GPU takes 100 examples, as the script has it; a step of 8 GPUs takes 800."
    steps = whole(EIGHT, fixed="steps")
    line = (
        "Each GPU takes 100 examples, as the script has it; a step of 8 GPUs takes 800, and any number of them makes "
    )
    line += "1,000,000 steps."
    assert notes(steps)[0] == line
    several = whole(ONE, for_several=True)
    line = "Each GPU takes 100 examples, as the script has it; for several add --gpus 8, or 1,2,4,8 to compare."
    assert notes(several)[0] == line
    assert each_gpu(whole(ONE)) is None and each_gpu(whole(ONE, EIGHT, fixed="batch")) is None
    assert "batch 100 on each" in title(grown) and "on each" not in title(whole(ONE))


def test_the_plain_facts_have_each_rows_batch() -> None:
    plain = json.loads(json.dumps(as_json(whole(here(), ONE, EIGHT))))
    assert {row["device"]: row["batch"] for row in plain["rows"]} == {
        "this machine": 100, "H100": 100, "8 × H100": 800
    }  # fmt: skip
    assert (plain["fixed"], plain["batch"]) == ("examples", 100)
    assert plain["each_gpu"] == {"batch": 100, "gpus": 8, "total": 800, "steps": None}


def test_speeds_are_of_as_many_examples() -> None:
    answer = whole(ONE, EIGHT)
    assert rate_words(answer, EIGHT) == "64,000 images a second"
    speeds = {row[0]: row[3] for _, row in cells(answer, why=True)}
    assert answer.pick is not None and answer.pick.device == "H100"
    assert speeds == {"H100": "1", "8 × H100": "6.4"}


def test_the_pipeline_feeds_every_gpus_batch() -> None:
    fed = work(ONE, EIGHT, pipeline_rate=1000.0, **GROWN)
    assert [fed.floor(row) for row in (ONE, EIGHT)] == [pytest.approx(0.1), pytest.approx(0.8)]


def test_evaluations_each_epoch_come_after_fewer_steps_and_those_by_steps_after_as_many() -> None:
    epochs, steps = Evaluation(80, 100, 1), Evaluation(80, 100, 1000, "step")
    amount = Amount(1e6, epochs=10)  # 10,000 steps of one, 1,250 of eight
    for evaluation, more in ((epochs, 8), (steps, 1)):
        script = work(ONE, EIGHT, evaluations=(evaluation,), script_examples=100_000, **GROWN)
        one, eight = (evaluated(script, row, amount)[0] for row in (ONE, EIGHT))
        assert eight == pytest.approx(more * one)


@pytest.mark.parametrize(("fixed", "counts"), [("examples", [2, 4, 8]), ("steps", []), ("batch", [2, 4])])
def test_more_gpus_may_end_in_time_where_they_make_fewer_steps(fixed: str, counts: list[int]) -> None:
    late = decide(work(ONE, fixed=fixed), Wants(deadline=1.0), Amount(EXAMPLES))
    assert several(late) == counts
