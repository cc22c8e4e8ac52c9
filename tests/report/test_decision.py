"""The decision in JavaScript is that of Python: the same pick, chances, costs and sentences on random work."""

import json
import random
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from answer.test_answer import device, work
from needs import program
from random_works import random_wants, random_work

from whichdevice.decide import Answer, Wants, table
from whichdevice.decide.decide import Amount, decide
from whichdevice.decide.words import amount_words, lines
from whichdevice.forecast.lived import Habits
from whichdevice.models.script.found import Evaluation
from whichdevice.study.report.live import live_data
from whichdevice.study.report.page import live_script

NODE = program("node")
pytestmark = pytest.mark.needs("node")
WORKS = 200
NUMBERS = (
    "seconds", "seconds_low", "seconds_high", "usd", "usd_low", "usd_high", "kwh", "kwh_low", "kwh_high",
    "co2", "co2_low", "co2_high", "in_time", "sure", "regret",
)  # fmt: skip
DECIDES = """
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
const plain = (value) => (value === undefined ? null : value);
const device = (option) => (option ? option.row.device : null);
console.log(JSON.stringify(cases.map(([data, wants]) => {
  const answer = decision.decide(data, wants), { pick, fastest, cheapest, rival, avoid } = answer;
  const options = answer.options.map((option) => ({
    device: option.row.device, ruled_out: option.ruled_out && option.ruled_out.why,
    numbers: NUMBERS.map((name) => plain(option[name])), on_front: option.on_front,
    cells: sentences.cells(option, data, answer),
  }));
  return {
    options, by: answer.by, matters: answer.matters, regret_at_most: plain(answer.regret_at_most),
    named: [pick, fastest, cheapest, rival, avoid].map(device), turning: plain(answer.turning) ?? [],
    price_turns: answer.price_turns ?? [],
    toss_up: (answer.toss_up ?? []).map(device), lines: sentences.lines(data, wants, answer),
  };
})));
"""


def asked(answer: Answer) -> dict[str, Any]:
    """What a page asks for where its reader typed the same."""
    names = ("by", "deadline", "budget", "only_free", "spot", "port", "hour_usd", "prices")
    wants = {name: getattr(answer.wants, name) for name in names}
    amount = answer.amount
    epochs = amount.epochs if amount.given and amount.counted == "units" else None
    return wants | {"units": amount.units, "epochs": epochs, "words": amount_words(answer)}


@pytest.fixture(scope="module")
def both() -> list[tuple[Answer, dict[str, Any]]]:
    """Answers of Python, each with what JavaScript makes of the same facts; these are of rows in another order."""
    chance, answers = random.Random(11), []
    for _ in range(WORKS):
        wants, amount = random_wants(chance)
        answers.append(decide(random_work(chance), wants, amount))
    pages = by_page([(live_data(answer), asked(answer)) for answer in answers])
    return list(zip(answers, pages, strict=True))


def by_page(cases: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    """What JavaScript makes of the facts of each page and of what its reader types."""
    script = f"{live_script().text}\nconst NUMBERS = {json.dumps(NUMBERS)};\n{DECIDES}"
    typed = json.dumps(cases)
    done = subprocess.run([str(NODE), "-e", script], input=typed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_both_rule_out_the_same_and_take_the_same(both: list[tuple[Answer, dict[str, Any]]]) -> None:
    for place, (answer, page) in enumerate(both):
        named = [answer.pick, answer.fastest, answer.cheapest, answer.rival, answer.avoid]
        assert page["named"] == [option and option.device for option in named], place
        assert (page["by"], page["matters"]) == (answer.by, answer.matters), place
        assert [option["device"] for option in page["options"]] == [option.device for option in answer.options], place
        assert [option["ruled_out"] for option in page["options"]] == [option.why for option in answer.options], place
        assert page["toss_up"] == [option.device for option in answer.toss_up], place


def test_both_have_the_same_times_costs_chances_and_regret(both: list[tuple[Answer, dict[str, Any]]]) -> None:
    for place, (answer, page) in enumerate(both):
        for option, other in zip(answer.options, page["options"], strict=True):
            for name, value in zip(NUMBERS, other["numbers"], strict=True):
                assert value == close_to(getattr(option, name)), (place, option.device, name)
            if option.ruled_out is None:
                assert other["on_front"] == option.on_front, (place, option.device)
        if answer.pick:
            assert page["regret_at_most"] == close_to(answer.regret_at_most), place
        assert [point["device"] for point in page["turning"]] == [point.device for point in answer.turning], place
        for point, other in zip(answer.turning, page["turning"], strict=True):
            assert other["hour_usd"] == close_to(point.hour_usd), place
        assert len(page["price_turns"]) == len(answer.price_turns), place
        for turn, other in zip(answer.price_turns, page["price_turns"], strict=True):
            assert (other["device"], other["above"]) == (turn.device, turn.above), place
            assert other["usd_per_hour"] == close_to(turn.usd_per_hour), place


def test_the_price_of_one_that_a_reader_types_holds_for_several() -> None:
    rows = (device("A", 1.0, 1.0), replace(device("4 × A", 0.2, 4.0), devices=4), device("B", 1.0, 2.0))
    usual, *others = (decide(work(*rows), Wants(prices=prices), Amount(1e6)) for prices in ({}, {"A": 9.0}, {"B": 0.5}))
    pages = by_page([(live_data(usual), asked(answer)) for answer in others])
    for answer, page in zip(others, pages, strict=True):
        usd = [option["numbers"][NUMBERS.index("usd")] for option in page["options"]]
        assert usd == [close_to(option.usd) for option in answer.options]


def test_evaluations_come_as_often_as_the_amount_that_a_reader_types_has_steps_and_epochs() -> None:
    rows = device("A", 1.0, 1.0), replace(device("2 × A", 0.6, 2.0), devices=2)
    often = (Evaluation(7, 79, 200, 1), Evaluation(9, 10, 50, 1000, "step"), Evaluation(8, 400, 100, 1, "training"))
    script = replace(work(*rows), evaluations=often, lived=Habits(1.0, 0.0, 0.0, 0.1, 1, 1), script_examples=10_000)
    amounts = Amount(1e6, given=False), Amount(1e5), Amount(1e5, epochs=50), Amount(2e7, counted="steps", count=2e5)
    usual, *others = (decide(script, Wants(), amount) for amount in amounts)
    pages = by_page([(live_data(usual), asked(answer)) for answer in (usual, *others)])
    for answer, page in zip((usual, *others), pages, strict=True):
        seconds = {option["device"]: option["numbers"][NUMBERS.index("seconds")] for option in page["options"]}
        assert seconds == {option.device: close_to(option.seconds) for option in answer.options}, answer.amount


def test_the_page_says_the_same_where_each_gpu_has_a_batch() -> None:
    evaluations = Evaluation(7, 79, 200, 1), Evaluation(9, 10, 50, 1000, "step")
    rows = device("A", 1.0, 1.0), replace(device("8 × A", 1.2, 8.0), devices=8)
    lived = Habits(1.0, 0.0, 0.0, 0.1, 1, 1)
    script = work(*rows, evaluations=evaluations, lived=lived, script_examples=10_000, fixed="examples")
    answers = [decide(script, Wants(), Amount(units, epochs=epochs)) for units, epochs in ((1e6, 1.0), (1e7, 50.0))]
    pages = by_page([(live_data(answers[0]), asked(answer)) for answer in answers])
    for answer, page in zip(answers, pages, strict=True):
        seconds = {option["device"]: option["numbers"][NUMBERS.index("seconds")] for option in page["options"]}
        assert seconds == {option.device: close_to(option.seconds) for option in answer.options}
        shown = {option["cells"][0]: option["cells"][:7] for option in page["options"]}
        assert shown == {row[0]: row[:7] for _, row in table.cells(answer, everything=True, energy=True)}


def close_to(value: float | None) -> Any:
    return value if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)


def test_both_say_the_same(both: list[tuple[Answer, dict[str, Any]]]) -> None:
    for place, (answer, page) in enumerate(both):
        assert page["lines"] == lines(answer), place
        cells = {row[0]: row[:7] for _, row in table.cells(answer, everything=True, energy=True)}
        shown = {option["device"]: option["cells"][:7] for option in page["options"]}
        assert {device: shown[device] for device in cells} == cells, place
