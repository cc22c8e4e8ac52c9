"""Rows of the table of cells that nobody measured here: what the TPU compiler says, and what was published."""

from typing import Any

import pandas as pd

from whichdevice.report.numbers import Elsewhere, Number, number, seconds, share, size

COMPILED, MODELLED, PUBLISHED = "compiled", "modelled", "published"
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


def compiled_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each step that the compiler was given."""
    return [_compiled(row) for _, row in table[table["workload"].notna()].iterrows()]


def _compiled(row: pd.Series) -> dict[str, Any]:
    known = row["status"] in ("ok", "does_not_fit")
    found: dict[str, Any] = {
        "evidence": "not compiled" if not known else COMPILED,
        "workload": row["workload"],
        "device": f"TPU {row['topology']}",
        "kind": "tpu",
        "backend": "jax",
        "precision": row["precision"],
        "loop": "",
        "batch_size": Number(float(row["batch_size"]), f"{row['batch_size']}"),
        "fraction": None,
        "sequence_length": _length(row),
        "status": _fits(row) if known else f"not compiled: {row['reason']}",
    }
    if pd.notna(row["memory_needed"]):
        found["peak_device"] = Elsewhere(_sized(row["memory_needed"]), COMPILED)
    if pd.notna(row["time_low"]):
        high = None if pd.isna(row["time_high"]) else Number(row["time_high"], seconds(row["time_high"]))
        low = Number(row["time_low"], seconds(row["time_low"]))
        found["step_time"] = Elsewhere(low, MODELLED, high=high, at_least=high is None)
        found["evidence"] = f"{COMPILED}, {MODELLED}"
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
