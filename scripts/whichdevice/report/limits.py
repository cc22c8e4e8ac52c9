"""Rows of table `limits` as the page shows them."""

from typing import Any

import pandas as pd

from whichdevice.figures.style import number
from whichdevice.report.numbers import cell_number, interval, percent
from whichdevice.results import StudyResults


def limit_rows(study: StudyResults) -> list[dict[str, Any]]:
    """Every device, backend and number format with a measured product or stream."""
    return [_row(row) for _, row in study.limits.iterrows()]


def utilisation(row: pd.Series) -> dict[str, Any]:
    """Model FLOP utilisation against the measured peak, and beside it against the sheet's."""
    sheet = None if pd.isna(row["mfu_sheet"]) else f"{percent(row['mfu_sheet'])} of sheet"
    return {"mfu": cell_number(row, "mfu", percent), "mfu_sheet": sheet}


def _row(row: pd.Series) -> dict[str, Any]:
    sheet = row["sheet_source"] if pd.notna(row["sheet_source"]) else None  # without a row: why it is not taken
    if pd.notna(row["sheet"]):
        told = [f"{number(row[name])} {unit}" for name, unit in SHEET.items() if pd.notna(row[name])]
        sheet = f"{row['sheet']}: {', '.join(told) or 'no peak in this format'}"
    return {
        **{name: row[name] for name in ("device", "backend", "product")},
        "device_name": row["device_name"] if pd.notna(row["device_name"]) else "",
        "peak": cell_number(row, "peak_tflops"),
        "peak_interval": interval(row["peak_tflops_low"], row["peak_tflops_high"]),
        "peak_size": row["peak_size"] if pd.notna(row["peak_size"]) else "–",
        "bandwidth": cell_number(row, "bandwidth_gbs"),
        "bandwidth_interval": interval(row["bandwidth_gbs_low"], row["bandwidth_gbs_high"]),
        "ridge": cell_number(row, "ridge"),
        "sheet": sheet or "none named or recognised",
        "of_sheet": cell_number(row, "peak_of_sheet", percent),
        "note": row["note"] if pd.notna(row["note"]) else None,
    }


SHEET = {"sheet_tflops": "TFLOP/s", "sheet_gbs": "GB/s"}
