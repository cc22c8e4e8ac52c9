"""What single runs left beside their numbers: epochs, windows and artefacts."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from whichdevice.records.schema import Record
from whichdevice.tables import makes
from whichdevice.tables.base import CELL_COLUMNS, Column, Sources, table

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
