"""Compare the cells of this study with the same cells of other records, by Welch's test on logarithms: table `compare`.

All cells that both sides measured are one family of the decision rule. A ratio compares everything that differs
between the two sides at once; `differences` lists it. Two sessions of one machine differ by more than the processes of
either: `controls` shows it by what both studies should have measured the same.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from whichdevice.base.errors import StudyError
from whichdevice.study.records.store import read_record
from whichdevice.study.tables.base import CELL, columns_of, table
from whichdevice.study.tables.decision_rule import decided, welch
from whichdevice.study.tables.measured import measured_values, settings, timed
from whichdevice.study.tables.runs import RUN_COLUMNS, run_row

SINGLE = {
    "device_name": "device",
    "device_count": "devices used",
    "cpu": "processor",
    "threads": "threads",
    "host_memory": "memory",
    "operating_system": "operating system",
    "driver": "driver",
    "python": "Python",
    "type_product": "number format of products",
    "type_sum": "number format of sums",
    "source": "data source",
    "git_commit": "commit",
}
LISTED = {"versions": ("", " "), "flags": ("setting ", "=")}  # column: what stands before a name, and after it
NONE = "none"
BOTH, HERE, THERE = "both", "only here", "only there"
COMPARED_WORK = {
    "module": "workload file",
    "mode": "mode",
    "replicas": "replicas",
    "parameters": "number of weights",
    "flops_per_step": "operations of a step",
}
COMPARE_COLUMNS = columns_of("compare")


def controls(here: pd.DataFrame, there: pd.DataFrame) -> pd.DataFrame:
    """Speed here / there of each control that both of two tables `runs` have.

    Columns `name`, `ratio`, `ratio_low`, `ratio_high` (95 %, Welch), `n`, `n_there`.
    """
    sides = [_fixed_work(runs) for runs in (here, there)]
    difference = welch(sides[0]["log"], sides[0]["name"], sides[1]["log"], sides[1]["name"])
    judged = decided(difference)[["ratio", "ratio_low", "ratio_high", "n"]]
    return judged.assign(n_there=difference["n_base"]).rename_axis("name").reset_index()


def _fixed_work(runs: pd.DataFrame) -> pd.DataFrame:
    """Beside every run, on the host's processor; no framework computes it."""
    known = _good(runs[runs["calibration"] > 0])
    names = [
        f"the fixed work ({kernel}, by NumPy) on the host of {device}"
        for device, kernel in zip(known["device"], known["calibration_kernel"], strict=True)
    ]
    return pd.DataFrame({"name": names, "log": -np.log(known["calibration"].astype(float))})


def _good(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[(runs["status"] == "ok") & (runs["evidence"] == "measured")]


def differences(here: pd.DataFrame, there: pd.DataFrame) -> list[str]:
    """A line for each thing that differs over the cells that both of two tables `runs` measured."""
    good = [timed(side) for side in (here, there)]
    good = [side.assign(cell=side[CELL].astype("object").fillna("").agg(tuple, axis="columns")) for side in good]
    common = set(good[0]["cell"]) & set(good[1]["cell"])
    here_common, other = (side[side["cell"].isin(common)] for side in good)
    return [*_single(here_common, other), *_listed(here_common, other), *_code(here_common, other)] if common else []


def _single(here: pd.DataFrame, other: pd.DataFrame) -> Iterator[str]:
    for column, name in SINGLE.items():
        yield from _difference(name, *(_values(side[column], column) for side in (here, other)))


def _listed(here: pd.DataFrame, other: pd.DataFrame) -> Iterator[str]:
    for column, (before, between) in LISTED.items():
        sides = [_entries(side[column], between) for side in (here, other)]
        for name in sorted({*sides[0], *sides[1]}):
            yield from _difference(f"{before}{name}", *(side.get(name, []) for side in sides))


def _code(here: pd.DataFrame, other: pd.DataFrame) -> Iterator[str]:
    """One hash belongs to one workload and backend, so it is counted rather than shown."""
    hashes = [dict(list(side.groupby("cell")["code_hash"].agg(set).items())) for side in (here, other)]
    changed = sum(here_hash != hashes[1][cell] for cell, here_hash in hashes[0].items())
    if changed:
        yield f"measuring code: another hash in {changed} of {len(hashes[0])} cells"


def _difference(name: str, here: list[str], other: list[str]) -> Iterator[str]:
    if here != other:
        yield f"{name}: {', '.join(here) or NONE} here, {', '.join(other) or NONE} there"


def _values(column: pd.Series, name: str) -> list[str]:
    values = column.dropna().unique().tolist()
    if name == "host_memory":
        return sorted({f"{value / 2**30:.0f} GiB" for value in values})
    return sorted(str(value)[:10] if name == "git_commit" else str(value) for value in values)


def _entries(column: pd.Series, between: str) -> dict[str, list[str]]:
    """Name to its values, over texts such as `keras 3.15.1; numpy 2.4.6`."""
    names: dict[str, set[str]] = {}
    for text in column.dropna().unique():
        for entry in str(text).split("; "):
            name, _, value = entry.partition(between)
            names.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in names.items()}


def read_runs(paths: list[Path]) -> tuple[pd.DataFrame, list[str]]:
    """The records as table `runs`, and why some cannot be read."""
    rows, faults = [], []
    for path in paths:
        try:
            rows.append(run_row(read_record(path), path.as_posix()))
        except StudyError as error:
            faults.append(str(error))
    return table(rows, RUN_COLUMNS), faults


def without_copies(there: pd.DataFrame, here: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows `there` that are no copy of one before them or `here`, and what is to be said of the others.

    A process counts once: merged, backed up or linked results hold some records several times.
    """
    keys = pd.concat([_identity(here), _identity(there)], ignore_index=True)
    copies = keys.duplicated().to_numpy()[len(here) :]
    if not copies.any():
        return there, []
    words = f"{copies.sum()} of {len(there)} records: copies of others there or of this study's own"
    return there[~copies].reset_index(drop=True), [words]


def _identity(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what no two processes share: times to the second, and the seconds timed as far as a table holds them."""
    digits = {name: runs[name].map("{:.6g}".format, na_action="ignore") for name in ("seconds", "throughput")}
    return runs[["run", "machine_id", "started", "ended"]].assign(**digits)


def comparison_table(here: pd.DataFrame, there: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each cell in either of two tables `runs`: this study's cells first, in its order."""
    both = pd.concat([here.assign(own=True), there.assign(own=False)], ignore_index=True)
    good = measured_values(both)
    good = good.assign(cell=good.groupby(CELL, dropna=False, sort=False).ngroup(), log=np.log(good["value"]))
    sides = good[good["own"]], good[~good["own"]]
    first = good[~good["cell"].duplicated()].set_index("cell")
    counts = [side.groupby("cell").size().reindex(first.index) for side in sides]
    unlike = _unlike(*sides).reindex(first.index)
    alike = unlike.index[unlike.isna()]
    used = [side[side["cell"].isin(alike)] for side in sides]
    judged = decided(welch(used[0]["log"], used[0]["cell"], used[1]["log"], used[1]["cell"]))
    parts = (
        first[CELL]
        .join(judged.drop(columns="n"))
        .assign(
            measured=np.select([counts[1].isna(), counts[0].isna()], [HERE, THERE], BOTH),
            quantity=np.where(first["unit"] == "product", "tflops", "throughput"),
            here=np.exp(sides[0].groupby("cell")["log"].mean()),
            there=np.exp(sides[1].groupby("cell")["log"].mean()),
            n=counts[0],
            n_there=counts[1],
            note=unlike,
            setting=settings(good["cell"], good[["machine", "session"]]),
            evidence="measured",
        )
    )
    return table(parts, COMPARE_COLUMNS)


def _unlike(here: pd.DataFrame, there: pd.DataFrame) -> pd.Series:
    """Return, for each cell of both sides whose work is not the same, what differs."""
    ours, other = (side.groupby("cell")[list(COMPARED_WORK)].first() for side in (here, there))
    cells = ours.index.intersection(other.index)
    words = pd.Series("", cells, dtype="object")
    for column, name in COMPARED_WORK.items():
        a, b = ours.loc[cells, column], other.loc[cells, column]
        if column == "flops_per_step":  # tables hold six digits
            a, b = np.log(a.astype(float)).round(4), np.log(b.astype(float)).round(4)
        words = words.where((a == b) | a.isna() | b.isna(), words + f"other {name}; ")
    return ("not the same work: " + words.str.strip("; ")).where(words != "").dropna()
