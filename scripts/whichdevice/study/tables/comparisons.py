"""Make table `comparisons`: two choices at equal work that differ in one axis, each judged by the decision rule."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from whichdevice.decide.rows import OPERATIONS
from whichdevice.study.config.model import Study
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import CELL, Sources, columns_of, table
from whichdevice.study.tables.decision_rule import decided, paired
from whichdevice.study.tables.measured import (
    enough_repeats,
    joined_sources,
    measured_values,
    settings,
    without_rehearsals,
)

DEVICE, BEST, REPLICAS = "device", "device, own best", "replicas"
PREFERRED = {"backend": "tensorflow", "precision": "float32"}  # what the others are compared with
SIDE = ["device", "backend", "batch_size", "replicas", "value", "source", "machine", "session", "jit"]
COMPARISONS_COLUMNS = columns_of("comparisons")


@makes("two choices at equal work that differ in one axis: the ratio of their speeds, judged", COMPARISONS_COLUMNS)
def make_comparisons(sources: Sources) -> pd.DataFrame:
    """Return table `comparisons`.

    Every two devices are compared with the same settings, and with each device's fastest backend at that batch
    size: that is the highest geometric mean of those with enough good repeats, chosen from the very repeats that are
    then compared, which favours a device with many settings slightly. Backends, number formats and batch sizes
    are compared with the first of their kind, and devices of one name with the one that has the fewest replicas:
    with the same batch in all (strong scaling), or on each (weak scaling). All rows of one axis are one family.
    """
    return comparisons_table(sources.table("runs"), sources.study)


def comparisons_table(runs: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return every comparison; virtual replicas on one CPU, which show no speed, take no part."""
    good = without_rehearsals(measured_values(runs))
    order = {name: place for place, name in enumerate(in_order(good, study))}
    good = good.assign(place=good["device"].map(order), jit=good["flags"].str.extract(r"jit_compile=(\w+)")[0])
    pairs = pd.concat([part for part in _pairs(good) if len(part)] or [pd.DataFrame()], ignore_index=True)
    if pairs.empty:
        return table([], COMPARISONS_COLUMNS)
    group = pairs.groupby(["axis", *CELL, "model", *_base("device", "batch_size")], dropna=False, sort=False).ngroup()
    first = pairs[~group.duplicated()].set_axis(range(group.nunique()))
    logs = pd.Series(np.log(pairs["value"] / pairs["value_base"]), pairs.index)
    judged = decided(paired(logs, group), first["axis"])
    places = [pairs[["machine", "session"]], pairs[_base("machine", "session")]]
    named = {f"baseline_{name}": first[f"{name}_base"] for name in ("device", "backend", "batch_size", "replicas")}
    sources = pd.Series([joined_sources(rows["source_base"], rows["source"]) for _, rows in pairs.groupby(group)])
    made = first.drop(columns="source").assign(
        **named, setting=settings(group, *places), note=_unlike(first), source=sources, evidence="measured"
    )
    return table(made.join(judged), COMPARISONS_COLUMNS)


def in_order(rows: pd.DataFrame, study: Study) -> list[str]:
    """The devices of the rows: cpus first, then as the config names them, then others."""
    kinds = dict(zip(rows["device"], rows["kind"], strict=True))
    names = [name for name in study.devices if name in kinds] + [name for name in kinds if name not in study.devices]
    return sorted(names, key=lambda name: kinds[name] != "cpu")


def _base(*names: str) -> list[str]:
    return [f"{name}_base" for name in names]


def _pairs(good: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield a row for each two runs of one repeat that are compared, axis by axis."""
    yield _every_two(good, DEVICE, ["device"])
    yield _own_best(good)
    for axis in ("backend", "precision", "batch_size"):
        known = {name: place for place, name in enumerate(dict.fromkeys([PREFERRED.get(axis), *good[axis].unique()]))}
        rank = good[axis] if axis == "batch_size" else good[axis].map(known)
        yield _with_first(good.assign(rank=rank), axis, _but(axis))
    yield from _scaling(good)


def _but(*names: str) -> list[str]:
    """Return what is equal on both sides of a comparison that differs in these."""
    return [name for name in [*CELL, "model"] if name not in names]  # two models of one name are two works


def _every_two(good: pd.DataFrame, axis: str, differing: Sequence[str]) -> pd.DataFrame:
    shared = [*_but(*differing), "repeat"]
    base = good[list(dict.fromkeys([*shared, "place", *SIDE]))]
    pairs = good.merge(base, on=shared, suffixes=("", "_base"))
    return _both(pairs[pairs["place"] > pairs["place_base"]], axis)


def _own_best(good: pd.DataFrame) -> pd.DataFrame:
    """Return every two devices, each with its fastest backend."""
    cell = good.groupby([*CELL, "model"], dropna=False, sort=False).ngroup()
    choice = good.groupby(_but("backend"), dropna=False, sort=False).ngroup()
    means = np.log(good["value"]).groupby(cell).transform("mean")
    means = means.where(enough_repeats(cell.groupby(cell).transform("size"), choice))
    chosen = cell.loc[means.groupby(choice).idxmax()]
    return _every_two(good[cell.isin(chosen)], BEST, ["device", "backend"])


def _with_first(good: pd.DataFrame, axis: str, shared: list[str]) -> pd.DataFrame:
    """Return the rows with the row of the first choice of each group: the one with the lowest `rank`."""
    base = good[good["rank"] == good.groupby(shared, dropna=False, sort=False)["rank"].transform("min")]
    base = base[list(dict.fromkeys([*shared, "repeat", "rank", axis, *SIDE]))]
    pairs = good.merge(base, on=[*shared, "repeat"], suffixes=("", "_base"))
    return _both(pairs[pairs["rank"] > pairs["rank_base"]], axis)


def _scaling(good: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Compare more replicas with the fewest; an operation runs on each replica, so its size is per replica."""
    operation = good["unit"].isin(OPERATIONS)
    each = good["batch_size"].astype(float) / good["replicas"].astype(float).where(~operation, 1.0)
    rank = good.groupby(["replicas", "place"]).ngroup()
    ranked, alike = good.assign(each=each, rank=rank), ["kind", "device_name", *_but("device", "batch_size")]
    for rows, size in ((ranked[~operation], "batch_size"), (ranked, "each")):
        pairs = _with_first(rows, REPLICAS, [*alike, size])
        yield pairs[pairs["replicas"] > pairs["replicas_base"]]


def _both(pairs: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Return pairs with the choices on their axis, and every column of the base: what is equal is there once."""
    equal = {f"{name}_base": pairs[name] for name in SIDE if f"{name}_base" not in pairs}
    choice = "device" if axis == BEST else axis
    sides = {"baseline": pairs[f"{choice}_base"].astype(str), "compared": pairs[choice].astype(str)}
    return pairs.assign(**equal, **sides, axis=axis)


def _unlike(first: pd.DataFrame) -> pd.Series:
    """TensorFlow compiles `fit` with XLA on one device and never under a strategy: then the ratio is of both."""
    words = "XLA " + first["jit_base"] + " on the baseline, " + first["jit"] + " here: the ratio is of that too"
    return words.where((first["axis"] == REPLICAS) & (first["jit_base"] != first["jit"]))
