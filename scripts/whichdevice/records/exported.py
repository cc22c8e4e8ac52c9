"""The record of one exported model: which run it is of, its files, its signature, and how it compares with that run.

It holds no times, host names or absolute paths. `status` is `different` where a reloaded model does not predict what
the run predicted, within `tolerance`.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from whichdevice.records.schema import Integer, Part, Redacted, no_newer_than
from whichdevice.records.store import read_as

SCHEMA_VERSION = 1
RECORD = "export.json"
FAILED = "failed.json"  # beside an export that succeeded: why a later one did not
WEIGHTS, KERAS, SAVED_MODEL = "model.weights.h5", "model.keras", "saved_model/1"


class TensorSpecification(Part):
    """One tensor of a signature; None in the shape is any size, the first axis is the batch."""

    name: str
    dtype: str
    shape: list[Integer | None]


class ExportedFile(Part):
    """A file of the export."""

    sha256: str
    size: Integer  # bytes


class ExportCheck(Part):
    """A fresh process beside the run: the largest absolute differences of its predictions."""

    examples: Integer  # validation examples whose predictions the run recorded
    largest: float  # absolute value among what the run recorded
    tolerance: float
    weights_equal: bool | None = None  # those of the .keras file and those that the run saved, bit by bit
    keras: float | None = None
    saved_model: float | None = None
    same_class: Integer | None = None  # examples whose most probable class is the same, where there are classes


class ExportRecord(Part):
    """One exported model."""

    schema_version: Annotated[Integer, no_newer_than(SCHEMA_VERSION)] = SCHEMA_VERSION
    study: str
    workload: str
    module: str
    status: Literal["ok", "different", "failed"]
    reason: Redacted | None = None
    run: str | None = None  # <device>/<workload>/<cell>/r<repeat>, whose weights these are
    backend: str | None = None  # that trained
    precision: str | None = None
    epochs: float | None = None  # learned, with the part of a last one that train.seconds ended
    source: str | None = None  # of the training data
    validation_metric: float | None = None
    metric: str | None = None
    input: TensorSpecification | None = None
    output: TensorSpecification | None = None
    files: dict[str, ExportedFile] = Field(default_factory=dict)  # by path below the export's folder
    check: ExportCheck | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    code_hash: str | None = None


def read_export(path: Path) -> ExportRecord:
    """Read export.json; raises StudyError that names the file when it is cut, garbled or of another schema."""
    return read_as(ExportRecord, path, f"export schema {SCHEMA_VERSION}")
