"""Compare a study with other records: the table, the page, and the summary on the study's own page."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.base.errors import StudyError
from whichdevice.base.numbers import number
from whichdevice.study.report.numbers import RULE, cell_key, cell_number, interval, verdict_words
from whichdevice.study.report.page import render
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.base import length_words, share_words, write_table
from whichdevice.study.tables.comparison import (
    BOTH,
    COMPARE_COLUMNS,
    HERE,
    THERE,
    comparison_table,
    controls,
    differences,
    read_runs,
    without_copies,
)
from whichdevice.study.tables.decision_rule import FASTER, SAME, SLOWER, UNDECIDED

VERDICTS = [FASTER, SLOWER, SAME, UNDECIDED]
ALONE = [HERE, THERE]
PAGE = "compare.html"
MOST_DIFFERENCES = 12


def write_comparison(
    study: str,
    against: str,
    compared: pd.DataFrame,
    shared: pd.DataFrame,
    differing: list[str],
    faults: list[str],
    out: Path,
) -> None:
    """Write the page, one file that needs nothing else; `shared` is the result of `controls`."""
    both = compared[compared["measured"] == BOTH]
    render(
        "comparison.html",
        out,
        study=study,
        against=against,
        summary=summary_line(compared),
        rule=RULE,
        settings=sorted(both["setting"].dropna().unique()),
        differences=differing,
        controls=control_lines(shared),
        faults=faults,
        rows=[_row(row) for _, row in both.iterrows()],
        alone={side: [_name(row) for _, row in compared[compared["measured"] == side].iterrows()] for side in ALONE},
        columns=[(name, *about) for name, about in COMPARE_COLUMNS.items()],
    )


def summary_line(compared: pd.DataFrame) -> str:
    """How many cells, and how many of each verdict."""
    both = compared[compared["measured"] == BOTH]
    counts = both.loc[both["note"].isna(), "verdict"].value_counts()
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if verdict in counts)
    unlike = int(both["note"].notna().sum())
    parts = [f"{len(both)} cells measured on both sides" + (f": {words}" if words else "")]
    parts += [f"{unlike} not of the same work"] if unlike else []
    parts += [f"{count} {side}" for side in ALONE if (count := int((compared["measured"] == side).sum()))]
    return "; ".join(parts) + "."


def control_lines(shared: pd.DataFrame) -> list[str]:
    """Rows of `tables.control` in words."""
    return [
        f"{row['name']}: {number(row['ratio'])} {interval(row['ratio_low'], row['ratio_high']) or '(no interval)'} "
        f"times as fast here, n = {row['n']}, {row['n_there']}."
        for _, row in shared.iterrows()
    ]


def _row(row: pd.Series) -> dict[str, Any]:
    return {
        "name": _name(row),
        "unit": "TFLOP/s" if row["quantity"] == "tflops" else "a second",
        "here": cell_number(row, "here"),
        "there": cell_number(row, "there"),
        "n": f"{row['n']}, {row['n_there']}",
        "ratio": cell_number(row, "ratio"),
        "interval": interval(row["ratio_low"], row["ratio_high"]),
        "p": "" if pd.isna(row["p_holm"]) else number(row["p_holm"]) if row["p_holm"] >= 0.001 else "< 0.001",
        "verdict": row["note"] if pd.notna(row["note"]) else verdict_words(row),
        "kind": row["verdict"] if pd.isna(row["note"]) else "",
    }


def _name(row: pd.Series) -> str:
    letter = "N" if row["quantity"] == "tflops" else "b"
    words = [row["device"], row["workload"], row["backend"], row["precision"], f"{letter}{row['batch_size']}"]
    words += share_words(row)
    words += length_words(row)
    return " · ".join(words)


def compared_with(study: StudyResults, page: Path) -> dict[str, Any] | None:
    """Return its summary and its page; nothing where there is none, or where the tables are newer."""
    table, runs, other = study.tables_folder / "compare.csv", study.tables_folder / "runs.csv", page.with_name(PAGE)
    try:
        if not other.is_file() or table.stat().st_mtime < runs.stat().st_mtime:
            return None
        return {"summary": summary_line(study.compare), "address": PAGE, "cells": _cell_words(study.compare)}
    except (OSError, StudyError):
        return None


def _cell_words(compared: pd.DataFrame) -> dict[tuple[Any, ...], str]:
    """Return the comparison of each cell that both studies measured, in words."""
    sentences = {}
    for _, row in compared[compared["ratio"].notna()].iterrows():
        key = cell_key(row)
        bounds = interval(row["ratio_low"], row["ratio_high"]) or "(no interval)"
        runs = f"n = {row['n']} and {row['n_there']}"
        sentences[key] = f"this study / the other = {number(row['ratio'])} {bounds}, {runs}: {verdict_words(row)}"
    return sentences


def compare(config_path: Path, tables_folder: Path, against: str, records: Iterable[Path], out_html: Path) -> list[str]:
    """Write compare.csv to the study's tables, and the page.

    Returns lines for a person. Raises StudyError where no record of the other side can be read.
    """
    study = StudyResults(config_path, tables_folder)
    there, faults = read_runs(list(records))
    if there.empty:
        raise StudyError(f"against: no record below {against} can be read: {faults[0]}")
    there, copies = without_copies(there, study.runs)
    if there.empty:
        raise StudyError(f"against: every record below {against} is a copy of one of this study")
    faults += copies
    compared, differing = comparison_table(study.runs, there), differences(study.runs, there)
    shared = controls(study.runs, there)
    write_table(compared, tables_folder / "compare.csv")
    write_comparison(study.study.study, against, compared, shared, differing, faults, out_html)
    left_out = len(differing) - MOST_DIFFERENCES
    return [
        f"{study.study.study} against {against}: {summary_line(compared)}",
        *(f"  control: {line}" for line in control_lines(shared)),
        *(f"  {line}" for line in differing[:MOST_DIFFERENCES]),
        *([f"  and {left_out} more differences"] if left_out > 0 else []),
        *(f"  left out: {fault}" for fault in faults),
    ]
