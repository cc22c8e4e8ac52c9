"""Table `windows`: every timed window of one cell of each workload and device, for figure `noise`.

The cell is the one with most processes, then most data, then the largest batch. The windows are of its first ten good
runs, in the order in which they were timed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.errors import StudyError
from whichdevice.records.store import read_record
from whichdevice.tables.base import CELL, Column, Sources, table
from whichdevice.tables.measured import timed

MOST_PROCESSES = 10

COLUMNS: dict[str, Column] = {
    "run": Column("text", "<device>/<workload>/<cell>/r<repeat>"),
    "warm_up": Column("flag", "discarded as warm-up"),
    "steps": Column("int", "steps of the window"),
    "seconds": Column("float", "s, time of these steps"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    runs = shown_runs(sources.table("runs"), sources.table("summary"))
    return table([row for _, run in runs.iterrows() for row in _rows(run)], COLUMNS)


def shown_runs(runs: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of `runs` whose windows are in the table, cell by cell in the order of `summary`, then by repeat."""
    cells = summary[(summary["n_timed"].fillna(0) > 0) & summary["step_time"].notna()]
    ordered = cells.sort_values(["n_timed", "fraction", "batch_size"], ascending=False, kind="stable")
    chosen = ordered.drop_duplicates(["workload", "device"]).sort_index()[CELL]
    good = timed(runs)
    good = good[good["steps"].notna()].merge(chosen.assign(place=range(len(chosen))), on=CELL)
    return good.sort_values(["place", "repeat"], kind="stable").groupby("place").head(MOST_PROCESSES)


def _rows(run: pd.Series) -> Iterator[dict[str, Any]]:
    """The windows of one run; nothing where its record can no longer be read."""
    try:
        record = read_record(Path(run["record"]))
    except StudyError:
        return
    for warm_up, windows in ((True, record.cold.warm_up), (False, record.steady.windows)):
        for steps, seconds in windows:
            yield {"run": run["run"], "warm_up": warm_up, "steps": steps, "seconds": seconds}
