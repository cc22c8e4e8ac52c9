"""Why a measured cell has no ratio to the reference device, in words."""

import pandas as pd

from whichdevice.report.matching import Key, cell_key
from whichdevice.results import StudyResults
from whichdevice.tables.base import CELL
from whichdevice.tables.measured import is_rehearsal, measured_values, without_rehearsals
from whichdevice.tables.speedups import baseline_of

Done = set[tuple[str, int]]  # model and repeat of each good run


def reference_device(study: StudyResults) -> str | None:
    """The device that table `speedups` divides by; None where no other one was measured."""
    devices = without_rehearsals(measured_values(study.runs))["device"].unique().tolist()
    return baseline_of("device", devices, study.study) if len(devices) > 1 else None


def without_ratio(study: StudyResults, reference: str | None) -> dict[Key, str]:
    """For each measured cell what is said of it where it has no ratio."""
    good = measured_values(study.runs).groupby(CELL, dropna=False, sort=False)
    done = {cell_key(rows.iloc[0]): set(zip(rows["model"], rows["repeat"], strict=True)) for _, rows in good}
    cells = {cell_key(row): row for _, row in study.summary.iterrows()}
    rehearsals = {cell_key(row) for _, row in study.measured[is_rehearsal(study.measured)].iterrows()}
    found = {}
    for key in (cell_key(row) for _, row in study.measured.iterrows()):
        if key in rehearsals:
            found[key] = "a rehearsal on virtual replicas, which shows no speed"
        elif reference is None:
            found[key] = "no other device measured"
        else:
            there = (reference, *key[1:])
            found[key] = _words(reference, key == there, cells.get(there), done.get(key, set()), done.get(there, set()))
    return found


def _words(reference: str, own: bool, there: pd.Series | None, here: Done, done: Done) -> str:
    if own:
        return "the reference"
    if there is None:
        return f"not run on {reference}"
    if there["n_timed"] == 0:
        return f"{reference}: {str(there['status']).split(':')[0]}"
    if here and done and not {model for model, _ in here} & {model for model, _ in done}:
        return f"another model on {reference}"
    return f"no repeat in common with {reference}"
