"""Printed answers, whole, as a terminal of 100 columns shows them: read them as a person would."""

from pathlib import Path

import pytest
import yaml
from answer.test_answer import CHEAP, FAST, SMALL, UNRENTED, here
from answer.test_facts import SITUATIONS, asked

from whichdevice.decide.words import SPEED, cells, head, text

PRINTED = yaml.safe_load(Path(__file__).with_name("printed.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "wants", "rows", "more"), SITUATIONS, ids=[one[0] for one in SITUATIONS])
def test_a_printed_answer(name, wants, rows, more) -> None:
    assert "\n".join(text(asked(wants, rows, more))) + "\n" == PRINTED[name]


@pytest.mark.parametrize(
    ("rows", "column"),
    [((here(), FAST, UNRENTED), ["× here", "1", "33", "10"]), ((CHEAP, FAST, SMALL), ["× pick", "1", "13", "–"])],
)
def test_a_column_says_how_many_times_as_fast_each_is(rows, column) -> None:
    found = asked({}, rows, {})
    assert [head(found, True)[SPEED], *(row[SPEED] for _, row in cells(found, why=True))] == column
    assert column[0] in "\n".join(text(found)) and column[0] not in "\n".join(text(found, 60))


@pytest.mark.parametrize(("name", "wants", "rows", "more"), SITUATIONS, ids=[one[0] for one in SITUATIONS])
@pytest.mark.parametrize("width", [100, 200])
def test_an_answer_is_one_screen(name, wants, rows, more, width) -> None:
    shown = text(asked(wants, rows, more), width)
    assert len(shown) <= 22 and max(map(len, shown)) <= 100
    whole = " ".join(text(asked(wants, rows, more), width, why=True))
    assert all(word in whole for word in " ".join(shown[2:4]).split()), name
