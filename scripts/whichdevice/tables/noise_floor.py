"""Make table `noise_floor`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from whichdevice.config.model import FIRST, SECOND, SLOWED
from whichdevice.tables import makes
from whichdevice.tables.base import CELL, Column, Sources, table
from whichdevice.tables.decision_rule import DECISION_COLUMNS, FASTER, SLOWER, decided, paired

SAME_TWICE, PLANTED = "the same cell twice", "planted slowdown"
CHECKED = {SECOND: SAME_TWICE, SLOWED: PLANTED}
SHARP = 0.05  # an interval wider than this would hardly show a false alarm
SETTINGS = ["module", *(name for name in CELL if name != "workload")]  # what a check and its base have in common

COLUMNS: dict[str, Column] = {
    "device": Column("text", "device, as the config names it"),
    "comparison": Column("text", f"{SAME_TWICE}, or {PLANTED}"),
    "module": Column("text", "workload file"),
    "backend": Column("text", "Keras backend"),
    "precision": Column("text", "number format"),
    "batch_size": Column("int", "examples per step"),
    "expected": Column("float", "the ratio of throughputs that is true by construction"),
    "ratio": Column("float", "the ratio found: geometric mean of paired repeats"),
    "ratio_low": Column("float", "lower end of the 95 % interval"),
    "ratio_high": Column("float", "upper end of the 95 % interval"),
    "half_width": Column("float", "half the width of that interval, as a share"),
    "n": Column("int", "pairs"),
    **DECISION_COLUMNS,
    "passed": Column(
        "flag",
        f"{SAME_TWICE}: neither {FASTER} nor {SLOWER}, half width at most {SHARP:.0%}; {PLANTED}: {SLOWER}; "
        "missing: too few repeats",
    ),
    "median_half_width": Column("float", "half width of the throughput's interval, median over the device's cells"),
    "n_disturbed": Column("int", "of the runs compared, those that the machine disturbed"),
}


@makes("what the study sees where nothing differs, and where a known slowdown was planted", COLUMNS)
def make_noise_floor(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return noise_floor_table(sources.table("runs"), sources.table("summary"))


def noise_floor_table(runs: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """Two rows for each device and settings of a self-check, one for each slowdown; a device's rows are one family."""
    return table([row for device, own in _checks(runs) for row in _rows(device, own, summary)], COLUMNS)


def _checks(runs: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    good = runs[runs["workload"].isin([FIRST, *CHECKED]) & (runs["status"] == "ok") & (runs["throughput"] > 0)]
    for device, own in good.groupby("device", sort=False):
        yield str(device), own


def _rows(device: str, own: pd.DataFrame, summary: pd.DataFrame) -> Iterator[dict[str, Any]]:
    base = own.loc[own["workload"] == FIRST, [*SETTINGS, "repeat", "throughput", "disturbed"]]
    pairs = own[own["workload"].isin(CHECKED)].merge(base, on=[*SETTINGS, "repeat"], suffixes=("", "_base"))
    if pairs.empty:
        return
    logs = pd.Series(np.log(pairs["throughput"] / pairs["throughput_base"]), pairs.index)
    group = pairs.groupby([*SETTINGS, "workload", "planted"], dropna=False, sort=False).ngroup()
    judged = decided(paired(logs, group))
    disturbed = pairs[["disturbed", "disturbed_base"]].fillna(False).astype(int).sum(axis=1)
    width = _median_half_width(summary[summary["device"] == device])
    for place, row in judged.iterrows():
        mine = pairs[group == place]
        first = mine.iloc[0]
        name = str(first["workload"])
        half_width = np.sqrt(row["ratio_high"] / row["ratio_low"]) - 1
        yield {
            **row,
            **{column: first[column] for column in ("module", "backend", "precision", "batch_size")},
            "device": device,
            "comparison": CHECKED[name],
            "expected": 1 / (1 + (first["planted"] if pd.notna(first["planted"]) else 0.0)),
            "half_width": half_width,
            "passed": _passed(name == SLOWED, row["verdict"], half_width),
            "median_half_width": width,
            "n_disturbed": int(disturbed[mine.index].sum()),
        }


def _passed(planted: bool, verdict: str, half_width: float) -> bool | None:
    if pd.isna(half_width):
        return None
    if planted:
        return verdict == SLOWER
    if verdict in (FASTER, SLOWER):
        return False
    return True if half_width <= SHARP else None


def _median_half_width(cells: pd.DataFrame) -> float:
    return float(((cells["throughput_high"] / cells["throughput_low"]) ** 0.5 - 1).median())
