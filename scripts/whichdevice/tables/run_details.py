"""What single runs left beside their numbers: epochs, windows and artefacts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.errors import StudyError
from whichdevice.records.schema import Record
from whichdevice.records.store import read_record
from whichdevice.tables import makes
from whichdevice.tables.base import CELL, CELL_COLUMNS, Column, Sources, table
from whichdevice.tables.measured import timed

EPOCHS_COLUMNS: dict[str, Column] = {
    "run": Column("text", "<device>/<workload>/<cell>/r<repeat>"),
    **CELL_COLUMNS,
    "repeat": Column("int", "number of the process, from 1"),
    "epoch": Column("int", "epoch, from 1"),
    "passed": Column("float", "epochs learned at its end; no whole number where train.seconds ended it early"),
    "seconds": Column("float", "s, training only"),
    "validation_seconds": Column("float", "s, validation"),
    "loss": Column("float", "training loss"),
    "metric": Column("float", "training quality, by the metric that `metric_name` names"),
    "validation_loss": Column("float", "validation loss"),
    "validation_metric": Column("float", "validation quality"),
    "learning_rate": Column("float", "learning rate of the epoch"),
    "metric_name": Column("text", "name of the quality metric"),
    "higher_is_better": Column("flag", "whether a higher metric is better; a loss is always better lower"),
    "joules": Column("float", "J, training and validation, where a meter was readable"),
    "source": Column("text", "where the data came from"),
}


@makes("one row per epoch that a run learned", EPOCHS_COLUMNS)
def make_epochs(sources: Sources) -> pd.DataFrame:
    """Return table `epochs`."""
    return table(sources.epoch_rows, EPOCHS_COLUMNS)


def epoch_rows(record: Record) -> Iterator[dict[str, Any]]:
    """The learned epochs of one record, in order."""
    shared = {
        "run": record.run,
        **{axis: getattr(record.asked, axis) for axis in CELL_COLUMNS},
        "repeat": record.asked.repeat,
        "metric_name": record.workload.metric if record.workload else None,
        "higher_is_better": record.workload.higher_is_better if record.workload else None,
        "source": record.data.source if record.data else record.asked.source,
    }
    for epoch in record.epochs:
        metered = record.energy.parts.get(f"epoch {epoch.epoch}")
        passed = epoch.epoch if epoch.steps is None else record.learned_epochs
        yield shared | dict(epoch) | {"passed": passed, "joules": metered.joules if metered else None}


MOST_PROCESSES = 10

WINDOWS_COLUMNS: dict[str, Column] = {
    "run": Column("text", "<device>/<workload>/<cell>/r<repeat>"),
    "warm_up": Column("flag", "discarded as warm-up"),
    "steps": Column("int", "steps of the window"),
    "seconds": Column("float", "s, time of these steps"),
}


@makes("every timed window of one cell of each workload and device, for figure `noise`", WINDOWS_COLUMNS)
def make_windows(sources: Sources) -> pd.DataFrame:
    """Return table `windows`.

    The cell is the one with most processes, then most data, then the largest batch. The windows are of its first ten
    good runs, in the order in which they were timed.
    """
    runs = shown_runs(sources.table("runs"), sources.table("summary"))
    return table([row for _, run in runs.iterrows() for row in _rows(run)], WINDOWS_COLUMNS)


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


ARTEFACTS_COLUMNS: dict[str, Column] = {
    "run": Column("text", "<device>/<workload>/<cell>/r<repeat>"),
    "name": Column("text", "what the file holds, such as predictions, samples or weights"),
    "file": Column("text", "path of the file, relative to the folder of the run's record"),
    "sha256": Column("text", "checksum of the file"),
}


@makes("the files that runs kept beside their records, such as predictions and samples", ARTEFACTS_COLUMNS)
def make_artefacts(sources: Sources) -> pd.DataFrame:
    """Return table `artefacts`."""
    return table(sources.artefact_rows, ARTEFACTS_COLUMNS)


def artefact_rows(record: Record) -> Iterator[dict[str, Any]]:
    """The artefacts of one record, by name."""
    for name, artefact in sorted(record.artefacts.items()):
        yield {"run": record.run, "name": name, "file": artefact.file, "sha256": artefact.sha256}
