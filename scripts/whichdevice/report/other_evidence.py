"""Show what nobody measured here: forecasts of other devices, and the audit of published figures.

Every word of the audit is computed in table `audit`.
"""

import json
import math
import statistics
from collections.abc import Iterator
from typing import Any

import pandas as pd

from whichdevice.files import CONFIG
from whichdevice.report.numbers import interval, number, percent, seconds, share, size
from whichdevice.results import StudyResults
from whichdevice.tables.audit import IMPOSSIBLE, NO_SPEED, POSSIBLE, UNKNOWN
from whichdevice.tables.base import device_name, length_words, read_rows


def forecast_section(study: StudyResults) -> dict[str, Any]:
    """Return rows of forecasts, and a line for programs without one; both empty where nothing was compiled."""
    known = study.forecasts["step_time"].notna()
    return {
        "rows": [_forecast_row(row) for _, row in study.forecasts[known].iterrows()],
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


def _forecast_row(row: pd.Series) -> dict[str, str]:
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


ORDER = [IMPOSSIBLE, POSSIBLE, UNKNOWN, NO_SPEED]


def audit_section(study: StudyResults) -> dict[str, Any]:
    """A sentence on all claims, one on each impossible one, and a row per claim, the impossible ones first."""
    table = study.audit
    ordered = table.iloc[table["possible"].map(ORDER.index).argsort(kind="stable")]
    return {
        "summary": _summary(table),
        "impossible": [_sentence(row) for _, row in table[table["possible"] == IMPOSSIBLE].iterrows()],
        "rows": [_audit_row(row) for _, row in ordered.iterrows()],
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
    UNKNOWN: "are unknown",
}


def _sentence(row: pd.Series) -> str:
    return f"{_what(row)} on {row['published_device']}: {row['why']}."


def _audit_row(row: pd.Series) -> dict[str, Any]:
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
