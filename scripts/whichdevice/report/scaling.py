"""Rows of table `scaling` as the page shows them."""

from typing import Any

import pandas as pd

from whichdevice.report.numbers import cell_number, interval
from whichdevice.report.verdicts import with_setting
from whichdevice.results import StudyResults
from whichdevice.tables.measured import is_rehearsal


def scaling_rows(study: StudyResults) -> list[dict[str, Any]]:
    """Every row, rehearsals on virtual replicas last and without an efficiency."""
    rows = study.scaling.assign(rehearsal=is_rehearsal(study.scaling)).sort_values("rehearsal", kind="stable")
    return [_row(row) for _, row in rows.iterrows()]


def _row(row: pd.Series) -> dict[str, Any]:
    sizes = dict.fromkeys([row["baseline_batch_size"], row["batch_size"]])
    loop = [] if row["loop"] == "epoch" else [f"loop {row['loop']}"]
    return {
        **{name: row[name] for name in ("workload", "scaling", "n")},
        "note": with_setting("" if pd.isna(row["note"]) else row["note"], row) or None,
        "devices": f"{row['baseline']} → {row['device']}",
        "settings": " · ".join([row["backend"], row["precision"], *loop]),
        "replicas": f"{row['baseline_replicas']} → {row['replicas']}",
        "batch_size": " → ".join(map(str, sizes)),
        "ratio": cell_number(row, "ratio"),
        "ratio_interval": interval(row["ratio_low"], row["ratio_high"]),
        "efficiency": None if row["rehearsal"] else cell_number(row, "efficiency"),
        "efficiency_interval": interval(row["efficiency_low"], row["efficiency_high"]),
    }
