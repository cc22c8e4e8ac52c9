"""Table `breakdown`: where a step's time goes, from the runs that were broken down."""

from typing import Any

import pandas as pd

from whichdevice.records.schema import Record
from whichdevice.tables.base import CELL, CELL_COLUMNS, Column, Sources, table
from whichdevice.tables.measured import disturbed, timed
from whichdevice.tables.statistics import geometric

PARTS = ("input", "host", "compute", "other")
MEANINGS = {
    "input": "choosing and converting the batch; with `fit`, feeding and copying it is in compute",
    "host": "the loop around the step; in eager PyTorch on a CPU, the time between operations",
    "compute": "the step itself, with the framework's own scheduling of its operations",
    "other": "starting a call of the loop, waiting for it and reading its result",
}
RUN_COLUMNS: dict[str, Column] = {
    "broken_down": Column("float", "s, step time beside the variants that its parts were found with; the parts' sum"),
    **{f"{name}_time": Column("float", f"s of a step: {text}") for name, text in MEANINGS.items()},
    "breakdown_note": Column("text", "why there is no breakdown, or what noise made of it"),
    "breakdown_method": Column("text", "how the parts were found"),
}
COLUMNS: dict[str, Column] = {
    **CELL_COLUMNS,
    "kind": Column("text", "cpu, gpu or tpu"),
    "step_time": Column("float", "s, the cell's step time, to which the parts are scaled; their sum"),
    **{f"{name}_time": Column("float", f"s of a step, mean: {text}") for name, text in MEANINGS.items()},
    **{f"{name}_share": Column("float", f"{name}_time / step_time") for name in PARTS},
    "n": Column("int", "processes broken down"),
    "note": Column("text", "what noise made of it"),
    "method": Column("text", "how the parts were found"),
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured, as differences between variants of the loop"),
}


def breakdown_row(record: Record) -> dict[str, Any]:
    """`RUN_COLUMNS` of one record."""
    found = record.breakdown
    if found is None:
        return {}
    parts = {f"{name}_time": getattr(found, name) for name in PARTS}
    note = found.reason or "; ".join(found.notes) or None
    return {"broken_down": found.step_time, **parts, "breakdown_note": note, "breakdown_method": found.method}


def _cells(runs: pd.DataFrame) -> pd.Series:
    return runs.groupby(CELL, dropna=False, sort=False).ngroup()


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return breakdown_table(sources.studied)


def breakdown_table(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each cell with an undisturbed run that was broken down; its parts add up to the cell's step time."""
    step_time = geometric(timed(runs)["step_time"], _cells(runs))["mean"]
    good = runs[(runs["status"] == "ok") & (runs["evidence"] == "measured") & runs["broken_down"].notna()]
    good = good[~disturbed(good)]
    whole = _cells(runs).loc[good.index].map(step_time).astype(float)
    scale = (whole / good["broken_down"]).fillna(1.0)
    parts = ["broken_down", *(f"{name}_time" for name in PARTS)]
    good = good.assign(**{name: good[name] * scale for name in parts})
    cell = good.groupby(CELL, dropna=False, sort=False).ngroup()
    seconds = good[parts].astype(float).groupby(cell, sort=False).mean()
    first = good[~cell.duplicated()].set_axis(seconds.index)
    notes = good["breakdown_note"].dropna()
    shares = {f"{name}_share": seconds[f"{name}_time"] / seconds["broken_down"] for name in PARTS}
    found = first[[*CELL, "kind", "source"]].join(seconds.rename(columns={"broken_down": "step_time"}))
    return table(
        found.assign(
            **shares,
            n=cell.value_counts(),
            note=notes.groupby(cell.loc[notes.index]).agg(lambda texts: "; ".join(dict.fromkeys(texts))),
            method=first["breakdown_method"],
            evidence="measured",
        ),
        COLUMNS,
    )
