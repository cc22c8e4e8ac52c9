"""Rows of the table of cells that nobody measured here: forecasts, and what was published."""

from typing import Any

import pandas as pd

from whichdevice.report.numbers import Elsewhere, Number, number, seconds, share, size
from whichdevice.tables.base import device_name

COMPILED, FORECAST, PUBLISHED = "compiled", "forecast", "published"
# Published metric and unit: the column that it stands in, the column's unit in its own, and how it is written.
METRICS: dict[tuple[str, str], tuple[str, float, Any]] = {
    ("throughput", "TFLOP/s"): ("tflops", 1.0, number),
    ("step_time", "ms"): ("step_time", 1e-3, seconds),
    ("epoch_time", "s"): ("learned_epoch_time", 1.0, seconds),
    ("first_epoch_time", "s"): ("first_epoch_time", 1.0, seconds),
    ("tpu_init_time", "s"): ("initialise", 1.0, seconds),
    ("validation_accuracy", "fraction"): ("quality", 1.0, share),
}
PUBLICATION = ["source", "published_device", "published_workload", "published_batch_size", "metric"]


def forecast_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each program that was compiled for a device."""
    return [_forecast(row) for _, row in table[table["workload"].notna()].iterrows()]


def _forecast(row: pd.Series) -> dict[str, Any]:
    known = pd.notna(row["step_time"])
    found: dict[str, Any] = {
        "evidence": FORECAST if known else "no forecast",
        "workload": row["workload"],
        "device": device_name(row),
        "kind": row["kind"],
        "backend": "jax",
        "precision": row["precision"],
        "loop": "",
        "batch_size": Number(float(row["batch_size"]), f"{row['batch_size']}"),
        "fraction": None,
        "sequence_length": _length(row),
        "status": _fits(row) if known else f"no forecast: {row['reason']}",
    }
    if pd.notna(row["memory_needed"]):
        found["peak_device"] = Elsewhere(_sized(row["memory_needed"]), COMPILED)
    if known:
        low, high = (Number(row[name], seconds(row[name])) for name in ("step_time_low", "step_time_high"))
        found["step_time"] = Elsewhere(low, FORECAST, high=high)
    return found


def _length(row: pd.Series) -> Number | None:
    length = row["sequence_length"]
    return None if pd.isna(length) else Number(float(length), f"{length}")


def _fits(row: pd.Series) -> str:
    return "fits" if row["status"] == "ok" else "does not fit into the memory"


def _sized(value: float) -> Number:
    return Number(float(value), size(value))


def published_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each published number that has a column here."""
    return [
        _published(row)
        for _, row in table.drop_duplicates(PUBLICATION).iterrows()
        if pd.notna(row["value"]) and (row["metric"], row["unit"]) in METRICS
    ]


def _published(row: pd.Series) -> dict[str, Any]:
    column, scale, written = METRICS[row["metric"], row["unit"]]
    batch = row["published_batch_size"]
    disputed = row["standing"] == "disputed"
    return {
        "evidence": PUBLISHED,
        "workload": row["published_workload"],
        "device": row["published_device"],
        "kind": row["device_class"],
        "backend": "",
        "precision": "",
        "loop": "",
        "batch_size": None if pd.isna(batch) else Number(float(batch), f"{batch}"),
        "fraction": None,
        "sequence_length": None,
        column: Elsewhere(
            Number(float(row["value"]), written(row["value"] * scale)),
            PUBLISHED,
            disputed=disputed,
            order=row["value"] * scale,
        ),
        "status": f"{row['source']}, {row['date']}" + ("; disputed" if disputed else ""),
    }
