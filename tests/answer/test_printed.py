"""Printed answers, whole, as a terminal of 100 columns shows them: read them as a person would."""

from dataclasses import replace
from typing import Any

import pytest
from answer.test_answer import CHEAP, FAST, FREE, MIDDLE, PARTS, SMALL, SPOT, UNRENTED, here
from answer.test_facts import HOST, SETTLE, TIGHT, asked
from beside import beside

from whichdevice.base.sheets.machines import ASSUMED, Cores
from whichdevice.decide import Answer, Row
from whichdevice.decide.rows import Price, estimated, without_time
from whichdevice.decide.words import SPEED, cells, head, text

PRINTED = beside(__file__)
ROWS = {  # by the name that printed.yaml has for each
    "here": here(), "H100": FAST, "L40S": MIDDLE, "T4": CHEAP, "T4, free": FREE, "H100, spot": SPOT, "tight T4": TIGHT,
    "too small": SMALL, "RTX 2080 Ti": UNRENTED, "hosted L4": HOST, "wide A100": SETTLE[0], "wide L40S": SETTLE[1],
    "H100 with parts": replace(FAST, memory_parts=PARTS, memory_needed=1e9, memory_available=2e11),
    "no time": replace(FAST, evidence="no time", step_time=None, reason="no compiler"),
    "too small here": estimated("this machine", 9.0, 30e9, 25e9),
    "estimated here": estimated("this machine", 900.0, 1e9, 25e9),
    "not here": without_time("this machine", "4-bit weights need a GPU"),
    **{f"{row.card} of 12 cores": replace(row, cores=Cores(12, 6, 16, 0.3)) for row in (FAST, MIDDLE, CHEAP)},
}  # fmt: skip


def row(entry: str | dict[str, Any]) -> Row:
    """A row by its name, or one of that name with changes."""
    changes = {"of": entry} if isinstance(entry, str) else tuples(entry)
    known = {name: value for name, value in changes.items() if name != "of"}
    if "price" in known:
        known["price"] = Price(known["price"], "Cloud")
    if "cores" in known:
        known["cores"] = ASSUMED if known["cores"] == "assumed" else Cores(*known["cores"])
    return replace(ROWS[changes["of"]], **known)


def tuples(given: dict[str, Any]) -> dict[str, Any]:
    """The same with tuples in place of lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


def answered(entry: dict[str, Any]) -> Answer:
    return asked(entry.get("wants", {}), tuple(map(row, entry["rows"])), tuples(entry.get("more", {})))


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_answer(name: str) -> None:
    assert "\n".join(text(answered(PRINTED[name]))) + "\n" == PRINTED[name]["text"]


@pytest.mark.parametrize(
    ("rows", "column"),
    [((here(), FAST, UNRENTED), ["× here", "1", "33", "10"]), ((CHEAP, FAST, SMALL), ["× pick", "1", "13", "–"])],
)
def test_a_column_says_how_many_times_as_fast_each_is(rows, column) -> None:
    found = asked({}, rows, {})
    assert [head(found, True)[SPEED], *(row[SPEED] for _, row in cells(found, why=True))] == column
    assert column[0] in "\n".join(text(found)) and column[0] not in "\n".join(text(found, 60))


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize("width", [100, 200])
def test_an_answer_is_one_screen(name: str, width: int) -> None:
    shown = text(answered(PRINTED[name]), width)
    assert len(shown) <= 22 and max(map(len, shown)) <= 100
    whole = " ".join(text(answered(PRINTED[name]), width, why=True))
    assert all(word in whole for word in " ".join(shown[2:4]).split()), name
