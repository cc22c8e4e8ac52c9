"""Rows of one table that belong to a row of another."""

from typing import Any

import pandas as pd

from whichdevice.tables.base import CELL

Key = tuple[Any, ...]


def alike(table: pd.DataFrame, row: pd.Series, columns: list[str]) -> pd.Series:
    """True for the rows of a table that have in these columns what `row` has, or lack what it lacks."""
    same = pd.Series(True, table.index)
    for name in columns:
        same &= table[name].isna() if pd.isna(row[name]) else (table[name] == row[name]).fillna(False)
    return same


def cell_key(row: Any) -> Key:
    """What the cell of a row is found by; None where it lacks an axis."""
    return tuple(None if pd.isna(row[name]) else row[name] for name in CELL)


def cell_of(table: pd.DataFrame, row: pd.Series) -> pd.Series:
    """The row of the same cell; empty where the table has none."""
    same = alike(table, row, CELL)
    return table[same].iloc[0] if same.any() else pd.Series(dtype="object")
