"""What prediction services were measured, for the page."""

from typing import Any

import pandas as pd

from whichdevice.figures.results import StudyResults
from whichdevice.figures.style import number
from whichdevice.report.numbers import interval, seconds


def serving_rows(study: StudyResults) -> list[dict[str, Any]]:
    """A row for each cell and number of clients; empty where nothing was served."""
    return [_row(row) for _, row in study.serving.iterrows()]


def _row(row: pd.Series) -> dict[str, Any]:
    return {
        "workload": row["workload"],
        "device": row["device"],
        "settings": f"{row['backend']} · {row['precision']}",
        "batch_size": f"{row['batch_size']}",
        "clients": f"{row['clients']}",
        "p50": seconds(row["p50"]),
        "p50_interval": interval(row["p50_low"], row["p50_high"], seconds),
        "p99": seconds(row["p99"]),
        "bare_call": _known(row["bare_call_p50"]),
        "bare_http": _known(row["bare_http_p50"]),
        "throughput": number(row["predictions_per_second"]),
        "throughput_interval": interval(row["predictions_per_second_low"], row["predictions_per_second_high"]),
        "requests": f"{row['requests']:,}",
        "failed": f"{row['failed']:,}" if row["failed"] else "",
        "n": f"{row['n']}",
    }


def _known(value: float) -> str:
    return "–" if pd.isna(value) else seconds(value)
