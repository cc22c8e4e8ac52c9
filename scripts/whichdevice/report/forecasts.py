"""Forecasts for the page: devices that nobody here ran, apart from everything measured."""

import json
import math
import statistics
from collections.abc import Iterator
from typing import Any

import pandas as pd

from whichdevice.figures.results import StudyResults
from whichdevice.figures.style import number
from whichdevice.files import CONFIG
from whichdevice.report.numbers import percent, seconds, size
from whichdevice.tables.columns import read_rows
from whichdevice.tables.row_words import device_name, length_words


def forecast_section(study: StudyResults) -> dict[str, Any]:
    """Rows of the section, and a line for what has no forecast; no rows where nothing was compiled."""
    known = study.forecasts["step_time"].notna()
    return {
        "rows": [_row(row) for _, row in study.forecasts[known].iterrows()],
        "missing": list(_missing(study.forecasts[~known])),
    }


def how_good() -> dict[str, str]:
    """How far forecasts lay from the published times, and the interval of a known device and family."""
    forecast = {row["id"]: float(row["forecast_ms"]) for row in read_rows(CONFIG / "forecast_results.csv")}
    published = {row["id"]: float(row["step_ms"]) for row in read_rows(CONFIG / "forecast_published.csv")}
    misses = [abs(math.log(published[name] / forecast[name])) for name in forecast if name in published]
    width = json.loads((CONFIG / "forecast_constants.json").read_text(encoding="utf-8"))["gpu"]["widths"]["known"]
    within = sum(miss <= width for miss in misses) / len(misses)
    return {
        "rows": str(len(misses)),
        "median": percent(math.expm1(statistics.median(misses))),
        "width": f"{math.exp(width):.2f}",
        "within": percent(within),
    }


def _row(row: pd.Series) -> dict[str, str]:
    letter = "N" if row["module"] == "matmul" else "b"
    work = ", ".join([f"{letter}{row['batch_size']}", *length_words(row)])
    least = "over " if row["memory_is_lower_bound"] is True else ""
    return {
        "device": device_name(row),
        "step": f"{row['workload']} {row['precision']} {work}",
        "time": seconds(row["step_time"]),
        "interval": f"{seconds(row['step_time_low'])} – {seconds(row['step_time_high'])}",
        "throughput": "" if pd.isna(row["throughput"]) else f"{number(row['throughput'])} {row['unit']}/s",
        "speedup": "" if pd.isna(row["speedup"]) else f"×{number(row['speedup'])} of {row['measured_device']}",
        "residual": "" if pd.isna(row["residual"]) else f"×{number(row['residual'])}",
        "memory": f"{least}{_gib(row['memory_needed'])} of {_gib(row['memory_available'])}",
        "fits": "fits" if row["status"] == "ok" else "does not fit",
        "largest": _largest(row),
        "price": "" if pd.isna(row["usd_per_hour"]) else f"{row['usd_per_hour']:.2f}",
        "note": "" if pd.isna(row["note"]) else str(row["note"]),
    }


def _largest(row: pd.Series) -> str:
    if pd.isna(row["largest_batch"]):
        return ""
    return f"{row['largest_batch']:,}{'' if pd.isna(row['largest_batch_reason']) else ' or more'}"


def _gib(value: float) -> str:
    """Bytes in the binary unit that suits them, or a dash where they are unknown."""
    return "–" if pd.isna(value) else size(value)


def _missing(rows: pd.DataFrame) -> Iterator[str]:
    """One line per reason."""
    for reason, group in rows.groupby(rows["reason"].fillna("no reason given"), sort=False):
        yield f"{len(group)} programs on {', '.join(group['device'].dropna().unique())}: {reason}"
