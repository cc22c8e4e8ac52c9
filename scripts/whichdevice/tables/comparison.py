"""Table `compare`: the cells of this study against the same cells of other records, by Welch's test on logarithms.

All cells that both sides measured are one family of the decision rule. A ratio compares everything that differs
between the two sides at once; what that is, `differences` says.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from whichdevice.errors import StudyError
from whichdevice.records.store import read_record
from whichdevice.tables.columns import CELL, CELL_COLUMNS, Column, table
from whichdevice.tables.decision import DECISION_COLUMNS, decided, welch
from whichdevice.tables.measured_values import measured_values
from whichdevice.tables.run_row import run_row
from whichdevice.tables.runs import COLUMNS as RUN_COLUMNS
from whichdevice.tables.sittings import SETTING, settings

BOTH, HERE, THERE = "both", "only here", "only there"
WORK = {
    "module": "workload file",
    "mode": "mode",
    "replicas": "replicas",
    "parameters": "number of weights",
    "flops_per_step": "operations of a step",
}

COLUMNS: dict[str, Column] = {
    **CELL_COLUMNS,
    "measured": Column("text", f"{BOTH}, {HERE} or {THERE}"),
    "quantity": Column("text", "what is compared: throughput, or tflops for products of matrices"),
    "here": Column("float", "the quantity in this study, geometric mean"),
    "there": Column("float", "the quantity in the other records, geometric mean"),
    "ratio": Column("float", "here / there, above 1 is faster here"),
    "ratio_low": Column("float", "lower end of the 95 % interval"),
    "ratio_high": Column("float", "upper end of the 95 % interval"),
    **DECISION_COLUMNS,
    "n": Column("int", "processes here"),
    "n_there": Column("int", "processes there"),
    "note": Column("text", "why there is no ratio, where both sides measured the cell"),
    "setting": SETTING,
    "evidence": Column("text", "measured; no other evidence enters a ratio"),
}


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
    told = f"{copies.sum()} of {len(there)} records: copies of others there or of this study's own"
    return there[~copies].reset_index(drop=True), [told]


def _identity(runs: pd.DataFrame) -> pd.DataFrame:
    """What no two processes share: times to the second, and the seconds timed as far as a table holds them."""
    digits = {name: runs[name].map("{:.6g}".format, na_action="ignore") for name in ("seconds", "throughput")}
    return runs[["run", "machine_id", "started", "ended"]].assign(**digits)


def comparison_table(here: pd.DataFrame, there: pd.DataFrame) -> pd.DataFrame:
    """A row for each cell of two tables `runs` that either measured: those of this study first, in its order."""
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
    found = (
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
            setting=settings(good["cell"], good[["machine", "sitting"]]),
            evidence="measured",
        )
    )
    return table(found, COLUMNS)


def _unlike(here: pd.DataFrame, there: pd.DataFrame) -> pd.Series:
    """For each cell of both sides whose work is not the same: what differs."""
    own, other = (side.groupby("cell")[list(WORK)].first() for side in (here, there))
    cells = own.index.intersection(other.index)
    told = pd.Series("", cells, dtype="object")
    for column, name in WORK.items():
        a, b = own.loc[cells, column], other.loc[cells, column]
        if column == "flops_per_step":  # tables hold six digits
            a, b = np.log(a.astype(float)).round(4), np.log(b.astype(float)).round(4)
        told = told.where((a == b) | a.isna() | b.isna(), told + f"other {name}; ")
    return ("not the same work: " + told.str.strip("; ")).where(told != "").dropna()
