"""What two studies should have measured alike: the fixed work before each run, and the cells that check a study.

Two sittings of one machine differ by more than the processes of either: no interval within them says by how much. These
ratios show it, as far as they go.
"""

import numpy as np
import pandas as pd

from whichdevice.config.self_check import FIRST
from whichdevice.tables.decision import decided, welch

CELL = ["device", "module", "backend", "precision", "batch_size", "fraction"]


def controls(here: pd.DataFrame, there: pd.DataFrame) -> pd.DataFrame:
    """Speed here / there of each control that both of two tables `runs` have.

    Columns `name`, `ratio`, `ratio_low`, `ratio_high` (95 %, Welch), `n`, `n_there`.
    """
    sides = [pd.concat([_fixed_work(runs), _self_checks(runs)]) for runs in (here, there)]
    found = welch(sides[0]["log"], sides[0]["name"], sides[1]["log"], sides[1]["name"])
    judged = decided(found)[["ratio", "ratio_low", "ratio_high", "n"]]
    return judged.assign(n_there=found["n_base"]).rename_axis("name").reset_index()


def _fixed_work(runs: pd.DataFrame) -> pd.DataFrame:
    """Beside every run, on the host's processor; no framework computes it."""
    known = _good(runs[runs["calibration"] > 0])
    names = [
        f"the fixed work ({kernel}, by NumPy) on the host of {device}"
        for device, kernel in zip(known["device"], known["calibration_kernel"], strict=True)
    ]
    return pd.DataFrame({"name": names, "log": -np.log(known["calibration"].astype(float))})


def _self_checks(runs: pd.DataFrame) -> pd.DataFrame:
    """Of the cell that a study measures to check itself; its workload is the same, its framework need not be."""
    known = _good(runs[(runs["workload"] == FIRST) & (runs["throughput"] > 0)])
    names = [f"the self-check {' '.join(map(str, cell))}" for cell in known[CELL].itertuples(index=False)]
    return pd.DataFrame({"name": names, "log": np.log(known["throughput"].astype(float))})


def _good(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[(runs["status"] == "ok") & (runs["evidence"] == "measured")]
