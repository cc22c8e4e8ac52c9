"""The noise floor of a study in words, from its checks of itself."""

from collections.abc import Iterator

import pandas as pd

from whichdevice.report.numbers import interval, number
from whichdevice.results import StudyResults
from whichdevice.tables.noise_floor import SAME_TWICE
from whichdevice.tables.statistics import SLOWER

UNTOLD = "; too wide to show that there is no false alarm"


def noise_floor(study: StudyResults) -> Iterator[tuple[str, bool]]:
    """A sentence for each device that measured a self-check, and whether the check went wrong."""
    for device, rows in study.noise_floor.groupby("device", sort=False):
        parts = [_told(row) for _, row in rows.iterrows()]
        width = rows["median_half_width"].iloc[0]
        if pd.notna(width):
            parts.append(f"half of this device's intervals are within ±{number(100 * width)} %")
        yield f"Noise floor of this study ({device}): {'; '.join(parts)}.", not rows["passed"].fillna(True).all()


def _told(row: pd.Series) -> str:
    found = f"{number(row['ratio'])} {interval(row['ratio_low'], row['ratio_high']) or '(no interval)'}"
    disturbed = f", {row['n_disturbed']} of the runs disturbed" if row["n_disturbed"] else ""
    judged = f"{row['verdict']}, n = {row['n']}{disturbed}"
    if row["comparison"] == SAME_TWICE:
        wrong = UNTOLD if pd.isna(row["passed"]) else "" if row["passed"] else "; a false alarm"
        return f"the same cell twice gave {found} ({judged}{wrong})"
    slower = f"{100 * (1 / row['expected'] - 1):.3g}"
    was = "could not be tested" if row["n"] == 1 else "was found" if row["verdict"] == SLOWER else "was not found"
    return f"a planted slowdown of {slower} %, true ratio {number(row['expected'])}, gave {found} and {was} ({judged})"
