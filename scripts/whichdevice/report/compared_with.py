"""The comparison with another study, where `snakemake compare` made one of these very tables."""

from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.errors import StudyError
from whichdevice.report.comparison import summary_line
from whichdevice.report.matching import cell_key
from whichdevice.report.numbers import interval, number
from whichdevice.report.verdicts import verdict_words
from whichdevice.results import StudyResults

PAGE = "compare.html"


def compared_with(study: StudyResults, page: Path) -> dict[str, Any] | None:
    """Its summary and its page; nothing where there is none, or where the tables are newer."""
    table, runs, other = study.tables_folder / "compare.csv", study.tables_folder / "runs.csv", page.with_name(PAGE)
    try:
        if not other.is_file() or table.stat().st_mtime < runs.stat().st_mtime:
            return None
        return {"summary": summary_line(study.compare), "address": PAGE, "cells": _told(study.compare)}
    except (OSError, StudyError):
        return None


def _told(compared: pd.DataFrame) -> dict[tuple[Any, ...], str]:
    """What is said of each cell that both studies measured."""
    found = {}
    for _, row in compared[compared["ratio"].notna()].iterrows():
        key = cell_key(row)
        bounds = interval(row["ratio_low"], row["ratio_high"]) or "(no interval)"
        runs = f"n = {row['n']} and {row['n_there']}"
        found[key] = f"this study / the other = {number(row['ratio'])} {bounds}, {runs}: {verdict_words(row)}"
    return found
