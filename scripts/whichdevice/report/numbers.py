"""How numbers and times are written for people; the exact value stays in the table."""

from typing import Any, NamedTuple

import pandas as pd

from whichdevice.figures.style import number


class Number(NamedTuple):
    """A number of a table: as it stands there, and as it is written."""

    value: float
    text: str


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    if value >= 120:
        return f"{number(value / 60)} min"
    if value >= 1:
        return f"{number(value)} s"
    return f"{number(value * 1e3)} ms" if value >= 1e-3 else f"{number(value * 1e6)} µs"


def share(value: float) -> str:
    """A quality between 0 and 1, or a loss, with four digits."""
    return f"{value:.4f}" if abs(value) < 10 else number(value)


def interval(low: float, high: float, written: Any = number) -> str | None:
    """An interval in brackets, or nothing where there is none."""
    return None if pd.isna(low) or pd.isna(high) else f"[{written(low)} – {written(high)}]"


def cell_number(row: Any, column: str, written: Any = number) -> Number | None:
    """A number of a table's row, or None where it is missing."""
    value = row[column]
    return None if pd.isna(value) else Number(float(value), written(float(value)))
