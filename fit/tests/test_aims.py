"""Aims of the committed scorecards, one a line of aims.csv: a number of a file, what it is at least and at most.

A part of a path may name several keys, with a star for any ending. A line that is `missed` says why, and must miss.
"""

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from fit.decisions import RECORD
from fit.kinds import KINDS

from whichdevice.forecast.joint import SCORECARD
from whichdevice.study.tables.base import read_rows

FILES = {"scorecard": SCORECARD, "decisions": RECORD, "kinds": KINDS}
AIMS = read_rows(Path(__file__).with_name("aims.csv"))


def values(found: Any, path: list[str]) -> Iterator[float]:
    """Every number of a card that a path names."""
    if not path:
        yield found
    elif isinstance(found, list):
        yield from values(found[int(path[0])], path[1:])
    else:
        names = [name for name in found if any(fnmatchcase(name, part) for part in path[0].split("|"))]
        assert names, path
        for name in names:
            yield from values(found[name], path[1:])


@pytest.mark.parametrize("aim", [
    pytest.param(aim, id=f"{aim['path']} {aim['least']}-{aim['most']}",
                 marks=[pytest.mark.xfail(strict=True, reason=aim["missed"])] if aim["missed"] else [])
    for aim in AIMS
])  # fmt: skip
def test_a_committed_number_is_as_good_as_its_aim(aim: dict[str, str]) -> None:
    card = json.loads(FILES[aim["file"]].read_text(encoding="utf-8"))
    for number in values(card, aim["path"].split("/")):
        assert float(aim["least"] or "-inf") <= number <= float(aim["most"] or "inf"), aim


def test_decisions_between_kinds_are_right_more_often_than_the_naive_rule() -> None:
    card = json.loads(KINDS.read_text(encoding="utf-8"))
    assert all(its["right"]["product"] > its["right"]["peak"] for its in card.values())
