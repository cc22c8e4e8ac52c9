"""Tables of ratios at equal work: one choice against another, and more replicas against fewer."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from whichdevice.study.config.model import Study
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import CELL, Sources, columns_of, table
from whichdevice.study.tables.batch_sizes import in_order
from whichdevice.study.tables.decision_rule import decided, geometric, paired
from whichdevice.study.tables.measured import (
    OPERATIONS,
    is_rehearsal,
    joined_sources,
    measured_values,
    quantity,
    setting_text,
    settings,
    without_rehearsals,
)

COMPARED_AXES = ["device", "backend", "precision", "batch_size"]
SPEEDUP_WORK = [*CELL, "model"]  # two models of one name are two works
PREFERRED = {"backend": "tensorflow", "precision": "float32"}

SPEEDUPS_COLUMNS = columns_of("speedups")


@makes("how much faster one choice is than another, all else equal, from paired repeats", SPEEDUPS_COLUMNS)
def make_speedups(sources: Sources) -> pd.DataFrame:
    """Return table `speedups`."""
    return speedup_table(sources.table("runs"), sources.study)


def speedup_table(runs: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return every comparison along one axis; the other columns describe the compared cell."""
    good = measured_values(runs)
    used = {axis: without_rehearsals(good) if axis == "device" else good for axis in COMPARED_AXES}
    parts = [part for axis, runs_of in used.items() for part in _speedups_compared(runs_of, axis, study)]
    return table(pd.concat(parts, ignore_index=True) if parts else [], SPEEDUPS_COLUMNS)


def _speedups_compared(good: pd.DataFrame, axis: str, study: Study) -> Iterator[pd.DataFrame]:
    """The rows of one axis, a family; nothing where no two cells differ along it."""
    baseline = baseline_of(axis, good[axis].dropna().unique().tolist(), study)
    same = [name for name in SPEEDUP_WORK if name != axis]
    if axis == "batch_size":  # the smallest of each workload and device, whatever other cells have
        within = good.groupby(same, dropna=False, sort=False)[axis]
        is_base = good[axis] == within.transform("min")
    else:
        is_base = good[axis] == baseline
    base = good.loc[is_base, [*same, "repeat", axis, "value", "source", "machine", "session"]]
    pairs = good[~is_base].merge(base, on=[*same, "repeat"], suffixes=("", "_base"))
    if pairs.empty:
        return
    group = pairs.groupby(SPEEDUP_WORK, dropna=False, sort=False).ngroup()
    judged = decided(paired(pd.Series(np.log(pairs["value"] / pairs["value_base"]), pairs.index), group))
    first = pairs[~group.duplicated()].set_axis(judged.index)
    sources = first["source"].fillna(""), first["source_base"].fillna("")
    yield (
        first[SPEEDUP_WORK]
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
    """Return what others are compared with: the first cpu, TensorFlow, float32, plain fit; else the first there is."""
    if axis == "device":
        cpus = [name for name, device in study.devices.items() if device.kind == "cpu"]
        return next((name for name in [*cpus, *study.devices] if name in values), None)
    preferred = PREFERRED.get(axis)
    return preferred if preferred in values else next(iter(values), None)


STRONG, WEAK = "strong", "weak"
REHEARSAL = "virtual replicas on one CPU: a rehearsal, no scaling"

SCALING_COLUMNS = columns_of("scaling")


@makes("what more replicas of the same device bring, as efficiency with its interval", SCALING_COLUMNS)
def make_scaling(sources: Sources) -> pd.DataFrame:
    """Return table `scaling`.

    Strong scaling: the same batch, shared by more replicas. Weak scaling: the same batch on each replica, so a larger
    one altogether. Each is compared with the fewest replicas that ran it: efficiency = throughput ratio / replica
    ratio, so 1 is perfect. An operation such as a matrix product runs on every replica: it scales weakly and never
    strongly.
    """
    return scaling_table(sources.table("runs"), sources.study)


def scaling_table(runs: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Every device against the one of the same kind and name with the fewest replicas."""
    good = measured_values(runs)
    order = {name: place for place, name in enumerate(in_order(good, study))}
    good = good.sort_values("device", key=lambda names: names.map(order), kind="stable")
    product = good["unit"].isin(OPERATIONS)  # every replica runs it
    share = good["batch_size"].astype(float) / good["replicas"].astype(float).where(~product, 1.0)
    jit = good["flags"].str.extract(r"jit_compile=(\w+)")[0]
    good = good.assign(replica_batch_size=share, place=good["device"].map(order), jit=jit)
    strong = _scaling_compared(good[~product], STRONG, "batch_size")
    return table([*strong, *_scaling_compared(good, WEAK, "replica_batch_size")], SCALING_COLUMNS)


def _scaling_compared(good: pd.DataFrame, scaling: str, size: str) -> Iterator[dict[str, Any]]:
    """Compare within groups that differ in device and replicas only; the first device with the fewest is the base."""
    alike = ["kind", "device_name", "model", *(name for name in CELL if name not in ("device", "batch_size")), size]
    fewest = good.groupby(alike, dropna=False, sort=False)["replicas"].transform("min")
    base = good[good["replicas"] == fewest]
    base = base[base["place"] == base.groupby(alike, dropna=False, sort=False)["place"].transform("min")]
    kept = [*alike, "repeat", "device", "replicas", "value", "source", "jit", "machine", "session"]
    kept += ["batch_size"] if size != "batch_size" else []
    pairs = good.merge(base[kept], on=[*alike, "repeat"], suffixes=("", "_base"))
    pairs = pairs[pairs["replicas"] > pairs["replicas_base"]]
    for _, rows in pairs.groupby([*alike, "device"], dropna=False, sort=False):
        yield _row(rows, scaling)


def _row(rows: pd.DataFrame, scaling: str) -> dict[str, Any]:
    first = rows.iloc[0]
    speedup = geometric(rows["value"] / rows["value_base"], pd.Series(0, rows.index)).iloc[0]
    places = [pd.concat([rows[name], rows[f"{name}_base"]]).nunique() for name in ("machine", "session")]
    replicas = float(first["replicas"]) / float(first["replicas_base"])
    bounds = {"": speedup["mean"], "_low": speedup["low"], "_high": speedup["high"]}
    return {
        "scaling": scaling,
        "baseline": first["device_base"],
        "baseline_replicas": first["replicas_base"],
        "baseline_batch_size": first.get("batch_size_base", first["batch_size"]),
        **{name: first[name] for name in [*CELL, "kind", "device_name", "replicas", "replica_batch_size"]},
        "quantity": quantity(str(first["unit"])),
        **{f"ratio{bound}": value for bound, value in bounds.items()},
        **{f"efficiency{bound}": value / replicas for bound, value in bounds.items()},
        "n": int(speedup["n"]),
        "setting": setting_text(*places),
        "note": REHEARSAL if is_rehearsal(rows).iloc[0] else _unlike(first),
        "source": joined_sources(rows["source_base"], rows["source"]),
        "evidence": "measured",
    }


def _unlike(pair: pd.Series) -> str | None:
    """TensorFlow compiles `fit` with XLA on one device and never under a strategy: then the ratio is of both."""
    if pd.isna(pair["jit"]) or pd.isna(pair["jit_base"]) or pair["jit"] == pair["jit_base"]:
        return None
    return f"XLA {pair['jit_base']} on the baseline, {pair['jit']} here: the ratio is of that too"
