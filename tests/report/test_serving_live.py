"""The live page about servers: what it says for another load, lengths and times is what `ask` says, or nearly."""

import json
import random
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import started_browser, watched_page
from needs import program

from whichdevice.apps.questions.serving import ServingQuestion, ask_serving, machines, over_lengths
from whichdevice.base.errors import StudyError
from whichdevice.decide import serving_words as words
from whichdevice.decide.serving import Load, Price, Server, Serving, decide
from whichdevice.models.served import served_model
from whichdevice.study.report.page import live_script, render
from whichdevice.study.report.serving_live import facts_of, lengths, live_data
from whichdevice.study.report.serving_pictures import pictures

NODE = program("node")
WORKS = 120
SAYS = """
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map(([data, load, servers]) => {
  const answer = serving.decide(data, servers ?? serving.serversAt(data, load), load), { pick } = answer;
  const options = answer.options.map((option) => ({
    key: `${option.server.count} ${option.server.device}`, name: option.name, sure: option.sure,
    usd: option.usd_per_hour, safe: option.safe,
    fits: option.server.fits, alone: option.server.one_user[1], most: option.server.max_requests,
    middle: serving.quantile(option.server, 0.5),
  }));
  const shown = serving.shownOptions(data, answer).map((option) => serving.cells(data, option, load));
  return {
    pick: pick && pick.name, options, lines: serving.lines(data, answer), notes: serving.notes(data, answer), shown,
    title: serving.title(data, load),
  };
})));
"""


def said(cases: list[Any]) -> list[dict[str, Any]]:
    script = f"{live_script(of_servers=True).text}\n{SAYS}"
    given = json.dumps(cases)
    done = subprocess.run([str(NODE), "-e", script], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def load_facts(load: Load, api: tuple[float, float] | None = None) -> dict[str, Any]:
    """What a form holds."""
    return {name: getattr(load, name) for name in ("rps", "prompt", "answer", "ttft", "tpot")} | {"api": api}


def random_servers(chance: random.Random) -> list[Server]:
    """Servers of a few devices, some of which are too small, never in time, without a price, bought or here."""
    found = []
    for place, device in enumerate(chance.sample(["T4", "L4", "L40S", "A100", "H100 SXM", "RTX 4090", "M4 Max"], 5)):
        for count in chance.choice([(1,), (1, 2), (1, 2, 4)]):
            slow = np.exp(chance.uniform(0.05, 0.5) * np.random.default_rng(place).standard_normal(200))
            most = chance.choice([0.0, 1.0, 1.0, 1.0]) * 10 ** chance.uniform(-1, 2)
            usd, speed = 10 ** chance.uniform(-1, 1), chance.uniform(5, 300)
            bought = chance.choice([None, None, None, 1234.5])
            price = Price(
                usd, usd / 1.7, usd * chance.choice([1.8, 1 / 1.7]), "median", bought, "Cloud", usd / 1.9,
                chance.choice([0, 1, 5]),
            )  # fmt: skip
            fits = chance.random() > 0.15
            weights = {"weights": chance.uniform(5e9, 2e10), "cache": chance.uniform(1e9, 4e10)}
            found.append(Server(
                device, count, "gpu", chance.choice(["bf16", "bf16", "awq"]), chance.choice(["vllm", "llama.cpp"]),
                chance.random() > 0.5, fits, weights, 9e10, chance.uniform(2e10, 8e10),
                chance.randint(1, 2000) if fits else 0, 131_072, tuple(most * slow) if fits else (),
                (0.8 * speed, speed, 12.3 * speed) if fits else (0.0, 0.0, 0.0), chance.uniform(0.01, 3.0),
                price=chance.choice([price, price, price, None]), here=place == 4 and count == 1,
                most_servers=1 if place == 4 and count == 1 else chance.choice([2, 16, 64]),
            ))  # fmt: skip
    return found


def plain(server: Server) -> dict[str, Any]:
    known = {"capacity": sorted(server.capacity), "one_user": server.one_user, "first_token": server.first_token}
    return facts_of(server) | known | {"fits": server.fits, "max_requests": server.max_requests}


@pytest.mark.needs("node")
def test_both_decide_and_say_the_same() -> None:
    chance, cases, answers = random.Random(5), [], []
    for _ in range(WORKS):
        rps = chance.choice([None, 10 ** chance.uniform(-1, 2)])
        load = Load(rps, 1000, 300, chance.uniform(0.2, 3), chance.uniform(0.01, 0.2))
        api = chance.choice([None, (chance.uniform(0.05, 1), chance.uniform(0.05, 2))])
        servers, without = random_servers(chance), chance.choice([(), ("T4", "V100")])
        answer = decide("org/Model-8B", load, servers, 131_072, api, without=without)
        data = live_data(answer, {(1000, 300): []}, chance.random() > 0.5)
        answers.append((answer, data["everything"]))
        cases.append([data, load_facts(load, api), [plain(server) for server in servers]])
    for place, ((answer, everything), page) in enumerate(zip(answers, said(cases), strict=True)):
        assert page["pick"] == (answer.pick and answer.pick.name), place
        assert [option["name"] for option in page["options"]] == [option.name for option in answer.options], place
        assert page["lines"] == words.lines(answer), place
        assert page["shown"] == [row for _, row in words.cells(answer, everything)], place
        assert page["notes"] == words.notes(answer, everything), place
        assert page["title"] == words.title(answer), place


@pytest.fixture(scope="module")
def page() -> tuple[ServingQuestion, Serving, dict[str, Any]]:
    """The facts of a page that was asked with one load, and its question."""
    question = ServingQuestion(
        served_model("meta-llama/Llama-3.1-8B-Instruct"), Load(5, 1000, 300, 1.0, 0.05),
        ("L40S", "H100 SXM", "RTX 4090", "T4"), (1, 2), here=False,
    )  # fmt: skip
    known = machines(question)
    answer = ask_serving(question, known)
    tables = over_lengths(question, known, [(100, 300), (100, 1000), (1000, 300)])
    return question, answer, json.loads(json.dumps(live_data(answer, tables)))


@pytest.mark.needs("node")
@pytest.mark.parametrize(
    "typed",
    [{}, {"rps": 40}, {"rps": None}, {"prompt": 100}, {"prompt": 100, "answer": 1000, "rps": 2}, {"ttft": 0.2},
     {"tpot": 0.02}, {"tpot": 0.001}],
)  # fmt: skip
def test_another_load_has_the_numbers_that_ask_has_within_two_per_cent(page, typed: dict[str, Any]) -> None:
    question, _, data = page
    load = replace(question.load, **typed)
    expected = ask_serving(replace(question, load=load, weights=None))
    [shown] = said([[data, load_facts(load), None]])
    options = {option["key"]: option for option in shown["options"]}
    assert len(options) == len(expected.options)
    for option in expected.options:
        server, other = option.server, options[f"{option.server.count} {option.server.device}"]
        assert (other["fits"], other["most"]) == (server.fits, server.max_requests)
        assert other["alone"] == pytest.approx(server.one_user[1], rel=1e-4)
        assert other["safe"] == pytest.approx(server.safe, rel=0.02)
        assert other["middle"] == pytest.approx(server.quantile(0.5), rel=0.02)
        if other["name"] == option.name:
            assert other["sure"] == (None if option.sure is None else pytest.approx(option.sure, abs=0.02))
            assert other["usd"] == pytest.approx(option.usd_per_hour)
    if expected.pick is None:
        assert shown["lines"] == [words.nothing(replace(expected, other_formats=()))]


def test_the_lengths_of_a_page_have_the_question_s_own() -> None:
    answer = decide("m", Load(5, 1200, 300, 1.0, 0.05), [], 8192)
    prompts = sorted({prompt for prompt, _ in lengths(answer)})
    assert prompts == [100, 1200, 4000] and (1200, 300) in lengths(answer)  # the model takes no 16,000


@pytest.mark.needs("node")
def test_lengths_that_the_model_does_not_take_are_said_as_ask_says_them(page) -> None:
    question, _, data = page
    load = replace(question.load, prompt=100, answer=1000)
    [shown] = said([[data | {"longest": 1050}, load_facts(load), None]])
    expected = "meta-llama/Llama-3.1-8B-Instruct: takes 1,050 tokens, and a request has 1,100: ask for fewer"
    assert shown["lines"][0].startswith(expected) and (len(shown["lines"]), shown["notes"]) == (1, [])
    small = replace(question, model=replace(question.model, longest=1050), load=load)
    with pytest.raises(StudyError, match=expected):
        ask_serving(small)


@pytest.fixture
def opened(page, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page in a browser, as wide as the test asks; a complaint fails the test."""
    _, answer, data = page
    file, (width, address) = tmp_path / "serve.html", getattr(request, "param", (1280, ""))
    render("ask.html", file, answers=[words.page_parts(answer, pictures(answer), live=data)])
    with started_browser() as browser, watched_page(browser, width) as (tab, _):
        tab.goto(f"{file.as_uri()}#{address}")
        yield tab


@pytest.mark.slow
@pytest.mark.needs("browser")
def test_a_load_typed_by_keyboard_changes_everything_and_the_address(opened: Any, page) -> None:
    _, answer, _ = page
    before = [opened.inner_html(part) for part in ("[data-decision]", "tbody", "[data-pictures]")]
    assert opened.inner_text("[data-decision]") == words.decision(answer)
    opened.focus("input[name=rps]")
    opened.keyboard.press("Control+A")
    opened.keyboard.type("40")
    after = [opened.inner_html(part) for part in ("[data-decision]", "tbody", "[data-pictures]")]
    assert "at 40 requests a second" in after[0] and all(one != other for one, other in zip(before, after, strict=True))
    assert opened.url.endswith("#rps=40")
    opened.keyboard.press("Control+A")
    opened.keyboard.type("5")
    assert opened.inner_text("[data-decision]") == words.decision(answer)
    assert opened.locator("[data-lines] p").all_inner_texts() == words.lines(answer)[1:]


@pytest.mark.slow
@pytest.mark.needs("browser")
@pytest.mark.parametrize("opened", [(390, "rps=2&prompt=100&tpot=200"), (1280, "")], indirect=True)
def test_an_address_brings_a_phone_to_the_same_load_and_names_do_not_overlap(opened: Any) -> None:
    width = opened.viewport_size["width"]
    if width == 390:
        assert "100 tokens in" in opened.inner_text("[data-title]") and "at 2 requests" in opened.inner_text(
            "[data-decision]"
        )
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    shown = [picture for picture in opened.locator("svg.chart").all() if picture.is_visible()]
    assert len(shown) == 2
    for picture in shown:
        boxes = [text.bounding_box() for text in picture.locator("text").all()]
        for place, one in enumerate(boxes):
            for other in boxes[place + 1 :]:
                apart = [
                    one[side] + one[size] <= other[side] + 3 or other[side] + other[size] <= one[side] + 3
                    for side, size in (("x", "width"), ("y", "height"))
                ]
                assert any(apart), (one, other)
