"""The page of one comparison: what differs, every cell's verdict, and what only one side measured."""

import base64
from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.figures import figure_facts
from whichdevice.report.numbers import cell_number, interval, number
from whichdevice.report.page import render
from whichdevice.report.verdicts import RULE, verdict_words
from whichdevice.tables.base import length_words, share_words
from whichdevice.tables.comparison import BOTH, COLUMNS, HERE, THERE
from whichdevice.tables.statistics import FASTER, SAME, SLOWER, UNDECIDED

VERDICTS = [FASTER, SLOWER, SAME, UNDECIDED]


def write_comparison(
    study: str,
    against: str,
    compared: pd.DataFrame,
    alike: pd.DataFrame,
    differing: list[str],
    faults: list[str],
    figure: Path,
    out: Path,
) -> None:
    """Write the page, one file that needs nothing else; `alike` is what `controls` found."""
    both = compared[compared["measured"] == BOTH]
    picture = base64.b64encode(figure.read_bytes()).decode("ascii")
    render(
        "comparison.html",
        out,
        study=study,
        against=against,
        summary=summary_line(compared),
        rule=RULE,
        settings=sorted(both["setting"].dropna().unique()),
        differences=differing,
        controls=control_lines(alike),
        faults=faults,
        figure={**figure_facts("comparison")._asdict(), "address": f"data:image/svg+xml;base64,{picture}"},
        rows=[_row(row) for _, row in both.iterrows()],
        alone={side: [_name(row) for _, row in compared[compared["measured"] == side].iterrows()] for side in ALONE},
        columns=[(name, *about) for name, about in COLUMNS.items()],
    )


ALONE = [HERE, THERE]


def summary_line(compared: pd.DataFrame) -> str:
    """How many cells, and how many of each verdict."""
    both = compared[compared["measured"] == BOTH]
    counts = both.loc[both["note"].isna(), "verdict"].value_counts()
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if verdict in counts)
    unlike = int(both["note"].notna().sum())
    parts = [f"{len(both)} cells measured on both sides" + (f": {told}" if told else "")]
    parts += [f"{unlike} not of the same work"] if unlike else []
    parts += [f"{count} {side}" for side in ALONE if (count := int((compared["measured"] == side).sum()))]
    return "; ".join(parts) + "."


def control_lines(alike: pd.DataFrame) -> list[str]:
    """Rows of `tables.control` in words."""
    return [
        f"{row['name']}: {number(row['ratio'])} {interval(row['ratio_low'], row['ratio_high']) or '(no interval)'} "
        f"times as fast here, n = {row['n']}, {row['n_there']}."
        for _, row in alike.iterrows()
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
        "p": "" if pd.isna(row["p_holm"]) else number(row["p_holm"]) if row["p_holm"] >= 0.001 else "< .001",
        "verdict": row["note"] if pd.notna(row["note"]) else verdict_words(row),
        "kind": row["verdict"] if pd.isna(row["note"]) else "",
    }


def _name(row: pd.Series) -> str:
    letter = "N" if row["quantity"] == "tflops" else "b"
    told = [row["device"], row["workload"], row["backend"], row["precision"], f"{letter}{row['batch_size']}"]
    told += share_words(row)
    told += [f"loop {row['loop']}"] if row["loop"] != "epoch" else []
    told += length_words(row)
    return " · ".join(told)
