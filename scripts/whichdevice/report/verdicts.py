"""Verdicts of the one decision rule in words (`whichdevice.tables.statistics`)."""

from typing import Any

import pandas as pd

from whichdevice.figures.style import number
from whichdevice.tables.measured import ONE
from whichdevice.tables.statistics import MOST, UNDECIDED

RULE = (
    "Faster, slower: p below .05 after Holm's correction over all comparisons of one kind, and beyond 3 %. Same "
    "within 5 %: the 90 % interval lies inside .95 to 1.05. Otherwise undecided, with the repeats that would probably "
    "decide (80 % power, an estimate from the spread seen). Every table is a family of its own, so that one of them "
    "may decide a pair that another, with more comparisons, leaves undecided."
)


def verdict_words(row: Any) -> str:
    """A row's verdict; where undecided, with the repeats that would decide."""
    return undecided_words(row["n_to_decide"]) if row["verdict"] == UNDECIDED else str(row["verdict"])


def with_setting(words: str, row: Any) -> str:
    """Words on a ratio, and its machines and sittings where these are several; a mark says that of the whole study."""
    setting = row["setting"]
    return words if pd.isna(setting) or setting == ONE else "; ".join(filter(None, [words, setting]))


def undecided_words(n_to_decide: Any) -> str:
    """`undecided (about n = 12 would decide)`; the number is an estimate, and missing where one repeat was run."""
    if pd.isna(n_to_decide):
        return UNDECIDED
    return f"{UNDECIDED} ({'more than' if n_to_decide >= MOST else 'about'} n = {number(n_to_decide)} would decide)"
