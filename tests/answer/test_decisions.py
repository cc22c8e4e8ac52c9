"""Which device is picked, and why another is no choice: the rows and wishes of decisions.yaml."""

from typing import Any

import pytest
from answer.test_facts import asked
from answer.test_printed import row
from beside import beside

from whichdevice.decide.words import name_words, why_words

_, PICKS, RULED_OUT, USES = beside(__file__)


@pytest.mark.parametrize("rule", PICKS)
def test_the_pick(rule: str) -> None:
    wants, rows, device = PICKS[rule]
    found = asked(wants, tuple(map(row, rows)), {})
    assert (found.pick.device if found.pick else None) == device


@pytest.mark.parametrize("rule", RULED_OUT)
def test_why_a_device_is_no_choice(rule: str) -> None:
    wants, entry, said = RULED_OUT[rule]
    found = asked(wants, (row(entry), row("here")), {})
    reason = next(option for option in found.options if option.row.card == row(entry).card).ruled_out
    assert (reason and why_words(reason)) == said


@pytest.mark.parametrize(("entry", "words"), USES)
def test_what_to_do_with_a_device(entry: dict[str, Any], words: str) -> None:
    assert name_words(asked({}, (row(entry),), {}).options[0]) == words
