"""The script of a page in a real browser: it multiplies, sorts and marks; what Python said stays."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answer.test_answer import CHEAP, FAST, FREE, MIDDLE, answer
from browser import started_browser, watched_page

from whichdevice.decide.words import lines
from whichdevice.study.report.page import render
from whichdevice.study.report.verdict import answer_parts

pytestmark = [pytest.mark.slow, pytest.mark.needs("browser")]
ANSWER = answer(FAST, MIDDLE, CHEAP, replace(FREE, session_hours=12.0))
ROWS = "[data-products] tbody tr"


@pytest.fixture
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page, with or without scripts; a complaint fails the test."""
    render("ask.html", file := tmp_path / "answer.html", answers=[answer_parts(ANSWER)])
    width, has_scripts = getattr(request, "param", (1280, True))
    with started_browser() as browser, watched_page(browser, width, java_script_enabled=has_scripts) as (page, _):
        page.goto(file.as_uri())
        if has_scripts:
            page.click("summary")
        yield page


def told(page: Any) -> dict[str, tuple[float, float]]:
    """Hours and USD of each row."""
    rows = page.locator(ROWS).all()
    return {
        row.locator("th").inner_text(): tuple(
            float(row.locator(f"[data-{name}]").inner_text().split()[0].replace(",", "")) for name in ("hours", "usd")
        )
        for row in rows
    }


@pytest.mark.parametrize("opened", [(1280, True), (390, True)], indirect=True)
def test_a_typed_amount_multiplies_time_and_usd(opened: Any) -> None:
    amount = ANSWER.amount.units
    opened.fill("[name=amount]", f"{100 * amount:.0f}")
    for option in ANSWER.choices:
        hours, usd = told(opened)[option.device]
        start = option.row.start_time
        assert hours == pytest.approx((start + 100 * (option.begun or 0.0)) / 3600, rel=0.01)
        times = hours * 3600 / (option.seconds or 1.0)
        assert usd == pytest.approx(times * (option.usd or 0.0), abs=0.51)  # as written: whole USD
    assert opened.locator(".decision").inner_text() == lines(ANSWER)[0]
    assert opened.evaluate("document.documentElement.scrollWidth") <= opened.viewport_size["width"]


def test_the_marked_row_costs_least_within_the_deadline_and_its_session(opened: Any) -> None:
    opened.fill("[name=amount]", f"{100 * ANSWER.amount.units:.0f}")
    for deadline in (1e6, 60.0):
        opened.fill("[name=deadline]", f"{deadline:.0f}")
        rows = told(opened)
        most = {option.device: min(deadline, option.row.session_hours or deadline) for option in ANSWER.choices}
        timely = {device: usd for device, (hours, usd) in rows.items() if hours <= most[device]}
        assert opened.locator(f"{ROWS}.pick th").inner_text() == min(timely, key=timely.__getitem__)


def test_a_typed_price_counts_and_a_column_sorts_both_ways(opened: Any) -> None:
    opened.fill(f"input[aria-label='USD an hour of {FAST.device}']", "0")
    assert told(opened)[FAST.device][1] == 0
    heading = opened.locator("[data-products] th[data-key=hours]")
    for order, is_reversed in (("ascending", False), ("descending", True)):
        heading.locator("button").press("Enter")
        hours = [hours for hours, _ in told(opened).values()]
        assert heading.get_attribute("aria-sort") == order and hours == sorted(hours, reverse=is_reversed)


@pytest.mark.parametrize("opened", [(1280, False)], indirect=True)
def test_without_scripts_the_answer_stands_alone(opened: Any) -> None:
    assert opened.inner_text(".decision") == lines(ANSWER)[0] and opened.is_visible("svg.chart.wide")
    assert not opened.is_visible("form") and not opened.is_visible("[data-products]")
