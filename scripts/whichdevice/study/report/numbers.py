"""Write numbers, times and verdicts for people.

The exact value stays in the table; verdicts follow the decision rule (`whichdevice.study.tables.decision_rule`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.base.numbers import number
from whichdevice.study.tables.base import CELL
from whichdevice.study.tables.decision_rule import MAX_REPEATS, UNDECIDED
from whichdevice.study.tables.measured import ONE

Key = tuple[Any, ...]
RULE = (
    "Faster, slower: p below 0.05 after Holm's correction over all comparisons along one axis, and beyond 3 %. Same "
    "within 5 %: the 90 % interval is inside 0.95 to 1.05. Otherwise undecided, with the repeats that would probably "
    "decide (80 % power, an estimate from the spread seen)."
)


def cell_key(row: Any, columns: Sequence[str] = CELL) -> Key:
    """Return the key of a row's cell, or of other columns; None where it lacks one."""
    return tuple(None if pd.isna(row[name]) else row[name] for name in columns)


class Number(NamedTuple):
    """A number of a table: as it stands there, and as it is written."""

    value: float
    text: str


class Estimate(NamedTuple):
    """A number of a table, its unit, its 95 % interval and the runs behind it, where the table has them."""

    value: Number
    unit: str = ""
    low: Number | None = None
    high: Number | None = None
    n: int | None = None


def interval(low: float, high: float, written: Any = number) -> str | None:
    """An interval in brackets, or nothing where there is none."""
    return None if pd.isna(low) or pd.isna(high) else f"[{written(low)} – {written(high)}]"


def cell_number(row: Any, column: str, written: Any = number) -> Number | None:
    """A number of a table's row, or None where it is missing."""
    value = row.get(column)
    return None if pd.isna(value) else Number(float(value), written(float(value)))


def estimate(row: Any, column: str, written: Any = number, unit: str = "", n: str = "n") -> Estimate | None:
    """A number of a table's row with its `_low`, `_high` and count `n`, or None where it is missing."""
    value = cell_number(row, column, written)
    if value is None:
        return None
    low, high = (cell_number(row, f"{column}_{end}", written) for end in ("low", "high"))
    if low is None or high is None:
        low = high = None
    return Estimate(value, unit, low, high, None if pd.isna(row.get(n)) else int(row[n]))


def verdict_words(row: Any) -> str:
    """A row's verdict; where undecided, with the repeats that would decide."""
    return undecided_words(row["n_to_decide"]) if row["verdict"] == UNDECIDED else str(row["verdict"])


def with_setting(words: str, row: Any) -> str:
    """Return words on a ratio, with its machines and sessions where there are several."""
    setting = row["setting"]
    return words if pd.isna(setting) or setting == ONE else "; ".join(filter(None, [words, setting]))


def undecided_words(n_to_decide: Any) -> str:
    """`undecided (about n = 12 would decide)`; the number is an estimate, and missing where one repeat was run."""
    if pd.isna(n_to_decide):
        return UNDECIDED
    return (
        f"{UNDECIDED} ({'more than' if n_to_decide >= MAX_REPEATS else 'about'} n = {number(n_to_decide)} would decide)"
    )
