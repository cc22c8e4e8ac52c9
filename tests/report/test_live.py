"""The live page in a real browser: the same decision as Python, by keyboard, on a phone, from an address."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answer.test_answer import CHEAP, FAST, FREE, MIDDLE, SPOT, device, here, work
from browser import started_browser, watched_page

from whichdevice.base.numbers import time_words, usd_words
from whichdevice.decide import Answer, Wants
from whichdevice.decide.decide import Amount, decide
from whichdevice.decide.words import lines
from whichdevice.forecast.lived import Habits
from whichdevice.models.script.found import Evaluation
from whichdevice.study.report.page import render
from whichdevice.study.report.verdict import answer_parts

pytestmark = [pytest.mark.slow, pytest.mark.needs("browser")]
TIGHT: dict[str, Any] = {"memory_tight": True, "memory_needed": 14.6e9, "memory_available": 15e9}
ROWS = (
    here(), FAST, MIDDLE, replace(CHEAP, **TIGHT), replace(FREE, **TIGHT, week_hours=30.0), SPOT,
    device("A10G", 0.0101, 0.8, own=0.6), device("H200", 0.0029, None),
    replace(device("8 × H100", 0.0029, 20.0), devices=8),
    replace(device("L4", 0.03, 0.7), start_time=600.0, host_time=0.02, host_log_sd=0.2),
    replace(device("V100", 0.02, 0.4), evidence="does not fit", step_time=None),
)  # fmt: skip
PIPELINE = {"pipeline_rate": 22_000.0, "pipeline_workers": 2}  # the two fastest wait for it
UNITS = 3e8


def decided(wants: Wants, units: float = UNITS) -> Answer:
    return decide(work(*ROWS, **PIPELINE), wants, Amount(units))


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("live") / "answer.html"
    answer = decided(Wants())
    render("ask.html", file, answers=[answer_parts(answer)])
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started_browser() as browser:
        yield browser


@pytest.fixture
def opened(browser: Any, page_file: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page at the address, width and with or without scripts as the test asks; a complaint fails the test."""
    asked = {"width": 1280, "hash": "", "scripts": True} | getattr(request, "param", {})
    settings = {"java_script_enabled": asked["scripts"], "color_scheme": "dark"}
    with watched_page(browser, asked["width"], **settings) as (page, _):
        page.goto(f"{page_file.as_uri()}#{asked['hash']}")
        yield page


def test_what_is_said_of_a_pick_goes_with_it(opened: Any) -> None:
    spot = "may be taken away at any moment"
    assert spot in opened.inner_text(".notes") and spot not in opened.inner_text("[data-lines]")
    opened.check("input[name=spot]")
    assert spot not in opened.inner_text(".notes") and spot in opened.inner_text("[data-lines]")
    assert "inside [ ]" in opened.inner_text(".notes")


@pytest.mark.parametrize("opened", [{"hash": "deadline=240"}, {"scripts": False}], indirect=True)
def test_no_name_of_the_picture_touches_another_or_a_dot(opened: Any) -> None:
    """As the page draws it, and as Python does."""
    names, axes, dots = (
        [each.bounding_box() for each in opened.locator(f"svg.chart {kind}").all()]
        for kind in ("text:is(.forecast, .measured)", "text:not(.forecast, .measured)", "circle")
    )
    assert len(names) > 4 and len(axes) > 5 and len(dots) > 5
    for place, one in enumerate(names):
        for other in [*names[place + 1 :], *axes, *dots]:
            apart = [
                one[side] + one[size] <= other[side] or other[side] + other[size] <= one[side]
                for side, size in (("x", "width"), ("y", "height"))
            ]
            assert any(apart), (one, other)


def test_a_budget_typed_by_keyboard_changes_the_pick_and_the_address(opened: Any) -> None:
    before = opened.inner_text("[data-decision]")
    opened.focus("input[name=units]")
    for _ in range(4):
        opened.keyboard.press("Tab")
    opened.keyboard.type("4")
    assert opened.evaluate("document.activeElement.name") == "budget"
    pick = decided(Wants(budget=4.0)).pick
    assert pick is not None and pick.seconds is not None
    assert opened.inner_text("[data-decision]") != before
    assert time_words(pick.seconds) in opened.inner_text("[data-decision]")
    assert opened.inner_text("tr.pick th") == pick.device and "budget=4" in opened.url


def test_a_slider_moves_a_price_and_with_it_the_pick(opened: Any) -> None:
    opened.click("summary:has-text('Prices and devices')")
    before, slider = opened.inner_text("tr.pick th"), "input[data-of='price H100']"
    opened.fill(slider, "-1")
    pick = decided(Wants(prices={"H100": 0.3})).pick
    assert opened.input_value("[name='price H100']") == "0.300" and "price+H100=0.300" in opened.url
    assert pick is not None and opened.inner_text("tr.pick th") == pick.device != before
    opened.fill(slider, "0")
    assert opened.inner_text("tr.pick th") == before and "price+H100" not in opened.url


def test_the_price_of_one_device_is_typed_once_for_all_its_rows(opened: Any) -> None:
    opened.click("summary:has-text('Prices and devices')")
    assert opened.locator("[name^='price 8']").count() == 0 and opened.locator("[name='take 8 × H100']").count() == 1
    opened.fill("[name='price H100']", "9")
    costs = {option.device: option.usd for option in decided(Wants(prices={"H100": 9.0})).options}
    row = opened.inner_text("tr:has(th:text-is('8 × H100'))")
    assert usd_words(costs["8 × H100"] or 0.0) in row


@pytest.mark.parametrize(
    "opened", [{"hash": "units=1000000000&deadline=240&price%20T4=0.001", "width": 390}], indirect=True
)
def test_an_address_brings_a_colleague_to_the_same_choice_on_a_phone(opened: Any) -> None:
    assert opened.inner_text("tr.pick th") == "T4" and opened.input_value("[name='price T4']") == "0.001"
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    assert usd_words(1e9 / 100 * 0.04 / 3600 * 0.001)[:4] in opened.inner_text("[data-decision]")


def test_epochs_that_a_reader_types_have_an_evaluation_each(browser: Any, tmp_path: Path) -> None:
    each_epoch = {"evaluations": (Evaluation(7, 1000, 100, 1),), "lived": Habits(1.0, 0.0, 0.0, 0.1, 1, 1)}
    as_written, typed = (
        decide(work(FAST, CHEAP, **each_epoch), Wants(), amount)
        for amount in (Amount(1e6, given=False), Amount(1e9, epochs=1000))
    )
    render("ask.html", file := tmp_path / "answer.html", answers=[answer_parts(as_written)])
    with watched_page(browser, 1280) as (page, _):
        page.goto(file.as_uri())
        page.fill("input[name=epochs]", "1000")
        assert typed.pick is not None and time_words(typed.pick.begun or 0.0) in page.inner_text("[data-decision]")


@pytest.mark.parametrize("opened", [{"scripts": False}], indirect=True)
def test_without_scripts_the_answer_is_as_it_was_asked(opened: Any) -> None:
    assert opened.inner_text("[data-decision]") == lines(decided(Wants()))[0]
    assert not opened.is_visible("form") and opened.is_visible("svg.chart")


def test_the_page_is_small(page_file: Path) -> None:
    assert page_file.stat().st_size < 110_000  # ten devices; 75 stay below 400 kB
