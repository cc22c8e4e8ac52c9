"""Table `scaling`: what more replicas of the same device bring, as efficiency with its interval.

Strong scaling: the same batch, shared by more replicas. Weak scaling: the same batch on each replica, so a larger one
altogether. Each is compared with the fewest replicas that ran it: efficiency = throughput ratio / replica ratio, so 1
is perfect. An operation such as a matrix product runs on every replica: it scales weakly and never strongly.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from whichdevice.config.model import Study
from whichdevice.tables.base import CELL, CELL_COLUMNS, Column, Sources, table
from whichdevice.tables.crossover import in_order
from whichdevice.tables.measured import (
    OPERATIONS,
    SETTING,
    is_rehearsal,
    joined_sources,
    measured_values,
    quantity,
    setting_text,
)
from whichdevice.tables.statistics import geometric

STRONG, WEAK = "strong", "weak"
REHEARSAL = "virtual replicas on one CPU: a rehearsal, no scaling"

COLUMNS: dict[str, Column] = {
    "scaling": Column("text", "strong: the same batch in all; weak: the same batch on each replica"),
    "kind": Column("text", "cpu, gpu or tpu"),
    "device_name": Column("text", "name of the device; only devices of one name are compared"),
    "baseline": Column("text", "device with the fewest replicas"),
    "baseline_replicas": Column("int", "its replicas"),
    "baseline_batch_size": Column("int", "its batch size over all replicas"),
    **CELL_COLUMNS,
    "replicas": Column("int", "replicas of `device`"),
    "replica_batch_size": Column("float", "examples per step on each replica of `device`; for matmul, N"),
    "quantity": Column("text", "what the ratio is of: throughput, or tflops for products of matrices"),
    **{
        f"{name}{bound}": Column("float", text + more)
        for name, text in [
            ("ratio", "device / baseline, geometric mean of paired repeats"),
            ("efficiency", "ratio / (replicas / baseline_replicas); 1 is perfect"),
        ]
        for bound, more in [("", ""), ("_low", ": lower end of the 95 % interval"), ("_high", ": upper end")]
    },
    "n": Column("int", "pairs"),
    "setting": SETTING,
    "note": Column("text", "why the row shows no scaling"),
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured; no other evidence enters a ratio"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return scaling_table(sources.studied, sources.study)


def scaling_table(runs: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Every device against the one of the same kind and name with the fewest replicas."""
    good = measured_values(runs)
    order = {name: place for place, name in enumerate(in_order(good, study))}
    good = good.sort_values("device", key=lambda names: names.map(order), kind="stable")
    product = good["unit"].isin(OPERATIONS)  # every replica runs it
    share = good["batch_size"].astype(float) / good["replicas"].astype(float).where(~product, 1.0)
    jit = good["flags"].str.extract(r"jit_compile=(\w+)")[0]
    good = good.assign(replica_batch_size=share, place=good["device"].map(order), jit=jit)
    strong = _compared(good[~product], STRONG, "batch_size")
    return table([*strong, *_compared(good, WEAK, "replica_batch_size")], COLUMNS)


def _compared(good: pd.DataFrame, scaling: str, size: str) -> Iterator[dict[str, Any]]:
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
    found = geometric(rows["value"] / rows["value_base"], pd.Series(0, rows.index)).iloc[0]
    places = [pd.concat([rows[name], rows[f"{name}_base"]]).nunique() for name in ("machine", "session")]
    more = float(first["replicas"]) / float(first["replicas_base"])
    bounds = {"": found["mean"], "_low": found["low"], "_high": found["high"]}
    return {
        "scaling": scaling,
        "baseline": first["device_base"],
        "baseline_replicas": first["replicas_base"],
        "baseline_batch_size": first.get("batch_size_base", first["batch_size"]),
        **{name: first[name] for name in [*CELL, "kind", "device_name", "replicas", "replica_batch_size"]},
        "quantity": quantity(str(first["unit"])),
        **{f"ratio{bound}": value for bound, value in bounds.items()},
        **{f"efficiency{bound}": value / more for bound, value in bounds.items()},
        "n": int(found["n"]),
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
