"""A page has one script, which cannot end early, and forbids every other one."""

import base64
import hashlib
import re
from pathlib import Path

import pytest
from answer.test_answer import CHEAP, FAST, FREE, answer

from whichdevice.study.report.page import REPORT_FOLDER, page
from whichdevice.study.report.products import products
from whichdevice.study.report.verdict import answer_parts

MOST_LINES = 200  # of the script of all pages: rules are Python's


def test_the_page_allows_its_own_script_alone() -> None:
    text = page("ask.html", answers=[answer_parts(answer(FAST, CHEAP))])
    [script] = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text and script == (REPORT_FOLDER / "page.js").read_text(encoding="utf-8")


def test_there_is_one_short_script() -> None:
    [script] = Path(REPORT_FOLDER).parent.glob("**/*.js")
    assert len(script.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_what_the_script_multiplies_comes_to_what_python_says() -> None:
    found = answer(FAST, CHEAP, FREE)
    rows = {row.device: row for row in products(found)}
    assert list(rows) == [option.device for option in found.choices] and rows[found.pick.device].is_pick
    for option in found.choices:
        row = rows[option.device]
        hours = (row.start + row.begun) / 3600
        assert 3600 * hours == pytest.approx(option.seconds, rel=0.01)
        assert (row.price or 0.0) * row.billed * hours == pytest.approx(option.usd)
