"""Table `speedups`: how much faster one choice is than another, all else equal, from paired repeats."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from whichdevice.config.model import Study
from whichdevice.tables.columns import CELL, CELL_COLUMNS, Column, table
from whichdevice.tables.intervals import geometric
from whichdevice.tables.measured_values import measured_values, quantity, without_rehearsals

AXES = ["device", "backend", "precision", "loop", "batch_size"]
PREFERRED = {"backend": "tensorflow", "precision": "float32", "loop": "fit"}

COLUMNS: dict[str, Column] = {
    "comparison": Column("text", "the axis along which two cells differ"),
    "baseline": Column("text", "its value in the cell divided by"),
    "compared": Column("text", "its value in the other cell"),
    **{name: column for name, column in CELL_COLUMNS.items()},
    "quantity": Column("text", "what the ratio is of: throughput, or tflops for products of matrices"),
    "ratio": Column("float", "compared / baseline, above 1 is faster; geometric mean of paired repeats"),
    "ratio_low": Column("float", "lower end of the 95 % interval"),
    "ratio_high": Column("float", "upper end of the 95 % interval"),
    "n": Column("int", "pairs"),
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured; no other evidence enters a ratio"),
}


def speedup_table(runs: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Every comparison along one axis; the other cell columns are those of the compared cell."""
    good = measured_values(runs)
    used = {axis: without_rehearsals(good) if axis == "device" else good for axis in AXES}
    return table([row for axis, runs_of in used.items() for row in _compared(runs_of, axis, study)], COLUMNS)


def _compared(good: pd.DataFrame, axis: str, study: Study) -> Iterator[dict[str, Any]]:
    baseline = baseline_of(axis, good[axis].dropna().unique().tolist(), study)
    equal = [name for name in CELL if name != axis] + ["repeat"]
    if axis == "batch_size":  # the smallest of each workload and device, whatever other cells have
        within = good.groupby([name for name in CELL if name != axis], dropna=False, sort=False)[axis]
        is_base = good[axis] == within.transform("min")
    else:
        is_base = good[axis] == baseline
    base = good.loc[is_base, [*equal, axis, "value", "source"]]
    pairs = good[~is_base].merge(base, on=equal, suffixes=("", "_base"))
    if pairs.empty:
        return
    pairs["ratio"] = pairs["value"] / pairs["value_base"]
    group = pairs.groupby([*CELL], dropna=False, sort=False).ngroup()
    found = geometric(pairs["ratio"], group)
    firsts = pairs.groupby(group, sort=False).first()
    for (_, first), (_, row) in zip(firsts.iterrows(), found.iterrows(), strict=True):
        sources = dict.fromkeys(str(first[name]) for name in ("source_base", "source") if pd.notna(first[name]))
        yield {
            "comparison": axis,
            "baseline": str(first[f"{axis}_base"]),
            "compared": str(first[axis]),
            **{name: first[name] for name in CELL},
            "quantity": quantity(str(first["unit"])),
            "ratio": row["mean"],
            "ratio_low": row["low"],
            "ratio_high": row["high"],
            "n": int(row["n"]),
            "source": " + ".join(sources) or None,
            "evidence": "measured",
        }


def baseline_of(axis: str, values: Sequence[Any], study: Study) -> Any:
    """What other values are compared with: the first cpu, TensorFlow, float32, plain fit; else the first there is."""
    if axis == "device":
        cpus = [name for name, device in study.devices.items() if device.kind == "cpu"]
        return next((name for name in [*cpus, *study.devices] if name in values), None)
    preferred = PREFERRED.get(axis)
    return preferred if preferred in values else next(iter(values), None)
