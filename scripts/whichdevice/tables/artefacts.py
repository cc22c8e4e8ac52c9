"""Table `artefacts`: the files that runs kept beside their records, such as predictions and samples."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from whichdevice.records.schema import Record
from whichdevice.tables.base import Column, Sources, table

COLUMNS: dict[str, Column] = {
    "run": Column("text", "<device>/<workload>/<cell>/r<repeat>"),
    "name": Column("text", "what the file holds, such as predictions, samples or weights"),
    "file": Column("text", "path of the file, relative to the folder of the run's record"),
    "sha256": Column("text", "checksum of the file"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return table(sources.artefact_rows, COLUMNS)


def artefact_rows(record: Record) -> Iterator[dict[str, Any]]:
    """The artefacts of one record, by name."""
    for name, artefact in sorted(record.artefacts.items()):
        yield {"run": record.run, "name": name, "file": artefact.file, "sha256": artefact.sha256}
