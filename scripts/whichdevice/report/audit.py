"""The audit of the published figures, as the page shows it; every word of it is computed in table `audit`."""

from typing import Any

import pandas as pd

from whichdevice.figures.style import number
from whichdevice.report.numbers import interval, percent, share
from whichdevice.results import StudyResults
from whichdevice.tables.audit import IMPOSSIBLE, NO_SPEED, POSSIBLE, UNKNOWN

ORDER = [IMPOSSIBLE, POSSIBLE, UNKNOWN, NO_SPEED]


def audit_section(study: StudyResults) -> dict[str, Any]:
    """A sentence on all claims, one on each impossible one, and a row per claim, the impossible ones first."""
    table = study.audit
    ordered = table.iloc[table["possible"].map(ORDER.index).argsort(kind="stable")]
    return {
        "summary": _summary(table),
        "impossible": [_sentence(row) for _, row in table[table["possible"] == IMPOSSIBLE].iterrows()],
        "rows": [_row(row) for _, row in ordered.iterrows()],
    }


def _summary(table: pd.DataFrame) -> str:
    """How many of the published speeds can be true, and how many were measured here."""
    speeds = table[table["possible"] != NO_SPEED]
    if speeds.empty:
        return "No speeds were published."
    counts = speeds["possible"].value_counts()
    parts = [f"{counts.get(name, 0)} {words}" for name, words in WORDS.items()]
    here = int(table["measured"].notna().sum())
    return (
        f"Of {len(speeds)} published speeds {', '.join(parts)}. {here} of all {len(table)} figures were measured here."
    )


WORDS = {
    IMPOSSIBLE: "are beyond the peak of the device that they name",
    POSSIBLE: "are possible",
    UNKNOWN: "cannot be told",
}


def _sentence(row: pd.Series) -> str:
    return f"{_what(row)} on {row['published_device']}: {row['why']}."


def _row(row: pd.Series) -> dict[str, Any]:
    """Empty texts where a number is missing."""
    return {
        "what": _what(row),
        "value": _value(row),
        "their_device": row["published_device"],
        "possible": row["possible"],
        "impossible": row["possible"] == IMPOSSIBLE,
        "of_sheet": "" if pd.isna(row["of_sheet"]) else percent(row["of_sheet"]),
        "why": "" if pd.isna(row["why"]) else row["why"],
        "measured": "" if pd.isna(row["measured"]) else f"{_written(row, row['measured'])} {_unit(row)}".strip(),
        "interval": interval(row["measured_low"], row["measured_high"], lambda value: _written(row, value)),
        "where": "" if pd.isna(row["measured"]) else _where(row),
        "ratio": "" if pd.isna(row["ratio"]) else f"×{number(row['ratio'])} of the published",
        "here": row["here"] if pd.notna(row["here"]) else "",
        "note": row["note"] if pd.notna(row["note"]) else "",
        "source": f"{row['source']}, {row['date']}",
        "caveat": row["caveat"] if pd.notna(row["caveat"]) else "",
    }


def _what(row: pd.Series) -> str:
    size = "" if pd.isna(row["published_batch_size"]) else f" b{row['published_batch_size']}"
    return f"{row['published_workload']}{size}: {str(row['metric']).replace('_', ' ')}"


def _value(row: pd.Series) -> str:
    return "no number" if pd.isna(row["value"]) else f"{_written(row, row['value'])} {_unit(row)}".strip()


def _unit(row: pd.Series) -> str:
    unit = "" if pd.isna(row["unit"]) else str(row["unit"])
    return {"fraction": "", "us/sample": "µs per example"}.get(unit, unit)


def _written(row: pd.Series, value: float) -> str:
    return share(value) if row["unit"] == "fraction" or "loss" in row["metric"] else number(value)


def _where(row: pd.Series) -> str:
    runs = f", n = {row['n']}" if pd.notna(row["n"]) else ""
    operation = row["published_workload"] == "matmul"  # which has no loop over data
    loop = "" if operation else f", loop {row['loop']}"
    return f"{row['device']}, {row['backend']} {row['precision']}{loop}{runs}"
