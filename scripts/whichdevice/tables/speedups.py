"""Table `speedups`: how much faster one choice is than another, all else equal, from paired repeats."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from whichdevice.config.model import Study
from whichdevice.tables.base import CELL, CELL_COLUMNS, Column, Sources, table
from whichdevice.tables.measured import SETTING, measured_values, settings, without_rehearsals
from whichdevice.tables.statistics import DECISION_COLUMNS, decided, paired

AXES = ["device", "backend", "precision", "loop", "batch_size"]
WORK = [*CELL, "model"]  # two models of one name are two works
PREFERRED = {"backend": "tensorflow", "precision": "float32", "loop": "fit"}

COLUMNS: dict[str, Column] = {
    "comparison": Column("text", "the axis along which two cells differ; its rows are one family"),
    "baseline": Column("text", "its value in the cell divided by"),
    "compared": Column("text", "its value in the other cell"),
    **CELL_COLUMNS,
    "model": Column(
        "text", "workload file, weights and operations of an example; two models of one name are two works"
    ),
    "quantity": Column("text", "what the ratio is of: throughput, or tflops for products of matrices"),
    "ratio": Column("float", "compared / baseline, above 1 is faster; geometric mean of paired repeats"),
    "ratio_low": Column("float", "lower end of the 95 % interval"),
    "ratio_high": Column("float", "upper end of the 95 % interval"),
    **DECISION_COLUMNS,
    "n": Column("int", "pairs"),
    "setting": SETTING,
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured; no other evidence enters a ratio"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return speedup_table(sources.studied, sources.study)


def speedup_table(runs: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return every comparison along one axis; the other columns describe the compared cell."""
    good = measured_values(runs)
    used = {axis: without_rehearsals(good) if axis == "device" else good for axis in AXES}
    found = [part for axis, runs_of in used.items() for part in _compared(runs_of, axis, study)]
    return table(pd.concat(found, ignore_index=True) if found else [], COLUMNS)


def _compared(good: pd.DataFrame, axis: str, study: Study) -> Iterator[pd.DataFrame]:
    """The rows of one axis, a family; nothing where no two cells differ along it."""
    baseline = baseline_of(axis, good[axis].dropna().unique().tolist(), study)
    same = [name for name in WORK if name != axis]
    if axis == "batch_size":  # the smallest of each workload and device, whatever other cells have
        within = good.groupby(same, dropna=False, sort=False)[axis]
        is_base = good[axis] == within.transform("min")
    else:
        is_base = good[axis] == baseline
    base = good.loc[is_base, [*same, "repeat", axis, "value", "source", "machine", "session"]]
    pairs = good[~is_base].merge(base, on=[*same, "repeat"], suffixes=("", "_base"))
    if pairs.empty:
        return
    group = pairs.groupby(WORK, dropna=False, sort=False).ngroup()
    judged = decided(paired(pd.Series(np.log(pairs["value"] / pairs["value_base"]), pairs.index), group))
    first = pairs[~group.duplicated()].set_axis(judged.index)
    sources = first["source"].fillna(""), first["source_base"].fillna("")
    yield (
        first[WORK]
        .join(judged)
        .assign(
            comparison=axis,
            baseline=first[f"{axis}_base"].astype(str),
            compared=first[axis].astype(str),
            quantity=np.where(first["unit"] == "product", "tflops", "throughput"),
            setting=settings(group, pairs[["machine", "session"]], pairs[["machine_base", "session_base"]]),
            source=sources[0]
            .where(sources[0] == sources[1], sources[1] + " + " + sources[0])
            .str.strip(" +")
            .replace("", None),
            evidence="measured",
        )
    )


def baseline_of(axis: str, values: Sequence[Any], study: Study) -> Any:
    """What other values are compared with: the first cpu, TensorFlow, float32, plain fit; else the first there is."""
    if axis == "device":
        cpus = [name for name, device in study.devices.items() if device.kind == "cpu"]
        return next((name for name in [*cpus, *study.devices] if name in values), None)
    preferred = PREFERRED.get(axis)
    return preferred if preferred in values else next(iter(values), None)
