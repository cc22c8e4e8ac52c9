"""What was measured of predictions, for the page."""

from typing import Any

import pandas as pd

from whichdevice.figures.style import number
from whichdevice.report.numbers import interval, seconds
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words


def inference_rows(study: StudyResults) -> list[dict[str, Any]]:
    """A row for each measured cell of mode predict; empty where there is none."""
    return [_row(row) for _, row in study.inference.iterrows()]


def _row(row: pd.Series) -> dict[str, Any]:
    settings = [row["backend"], row["precision"], *length_words(row), *(["fit"] if row["loop"] == "fit" else [])]
    return {
        "workload": row["workload"],
        "device": row["device"],
        "settings": " · ".join(map(str, settings)),
        "batch_size": f"{row['batch_size']}",
        "p50": _milliseconds(row["latency_p50"]),
        "p50_interval": interval(row["latency_p50_low"], row["latency_p50_high"], _milliseconds),
        "p99": _milliseconds(row["latency_p99"]),
        "throughput": number(row["throughput"]),
        "throughput_interval": interval(row["throughput_low"], row["throughput_high"]),
        "first": _known(row["first_step"]),
        "n": f"{row['n_timed']}",
    }


def _milliseconds(value: float) -> str:
    return _known(value / 1e3)


def _known(value: float) -> str:
    return "–" if pd.isna(value) else seconds(value)
