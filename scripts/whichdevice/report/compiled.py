"""What the TPU compiler said, for the page: facts and modelled ranges, apart from everything measured."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from whichdevice.figures.results import StudyResults
from whichdevice.figures.style import number
from whichdevice.report.numbers import seconds, size
from whichdevice.tables.row_words import length_words


def compiled_section(study: StudyResults) -> dict[str, Any]:
    """Rows of the section, and a line for what could not be compiled; no rows where nothing was."""
    table = study.compiled
    told = table[table["status"].isin(["ok", "does_not_fit"])]
    missing = table[~table["status"].isin(["ok", "does_not_fit"])]
    return {"rows": [_row(row) for _, row in told.iterrows()], "missing": list(_missing(missing))}


def _row(row: pd.Series) -> dict[str, str]:
    letter = "N" if row["module"] == "matmul" else "b"
    work = ", ".join([f"{letter}{row['batch_size']}", *length_words(row)])
    return {
        "topology": f"{row['topology']}, {row['devices']} devices",
        "step": f"{row['workload']} {row['precision']} {work}",
        "fits": _fits(row),
        "memory": f"{_gib(row['memory_needed'])} of {_gib(row['memory_available'])}",
        "largest": _largest(row),
        "reduced": _reduced(row),
        "time": _range(row),
        "cycles": "" if pd.isna(row["bytes_with_cycles"]) else f"{row['bytes_with_cycles'] * 100:.0f} %",
        "flops": "" if pd.isna(row["flops_ratio"]) else f"×{number(row['flops_ratio'])}",
        "compiled": "" if pd.isna(row["compile_seconds"]) else seconds(row["compile_seconds"]),
    }


def _reduced(row: pd.Series) -> str:
    """The all-reduces of a step; a dash where there is no program that has any or none."""
    if pd.isna(row["all_reduces"]):
        return "–"
    count = row["all_reduces"]
    return f"{count} × all-reduce, {_gib(row['all_reduce_bytes'])}" if count else "none"


def _largest(row: pd.Series) -> str:
    if pd.isna(row["largest_batch"]):
        return ""
    return f"{row['largest_batch']:,}{'' if pd.isna(row['largest_batch_reason']) else ' or more'}"


def _fits(row: pd.Series) -> str:
    return "fits" if row["status"] == "ok" else f"does not fit, {_gib(row['memory_missing'])} too much"


def _range(row: pd.Series) -> str:
    if pd.isna(row["time_low"]):
        return ""
    if pd.isna(row["time_high"]):
        return f"≥ {seconds(row['time_low'])}"
    return f"{seconds(row['time_low'])} – {seconds(row['time_high'])}"


def _gib(value: float) -> str:
    """Bytes in the binary unit that suits them, or a dash where they are unknown."""
    return "–" if pd.isna(value) else size(value)


def _missing(rows: pd.DataFrame) -> Iterator[str]:
    """One line per reason."""
    for reason, group in rows.groupby(rows["reason"].fillna("no reason given"), sort=False):
        yield f"{len(group)} steps on {', '.join(group['topology'].dropna().unique())}: {reason}"
