"""Define the record of an exported model: its run, its files, and how the SavedModel compares with that run.

It holds no times, host names or absolute paths. Its `status` is `different` where the SavedModel, read back, does not
predict what the run predicted, within `tolerance`.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from whichdevice.base.parts import Integer, Part, Redacted, no_newer_than, read_as

EXPORT_SCHEMA_VERSION = 3
EXPORT_RECORD = "export.json"
WEIGHTS, KERAS, SAVED_MODEL = "model.weights.h5", "model.keras", "saved_model/1"


class ExportedFile(Part):
    """A file of the export."""

    sha256: str
    size: Integer  # bytes


class ExportCheck(Part):
    """The SavedModel, read back, against the run: the largest absolute difference of predictions."""

    examples: Integer  # validation examples whose predictions the run recorded
    largest: float  # absolute value among what the run recorded
    tolerance: float
    saved_model: float | None = None  # None where it is not finite

    @property
    def difference(self) -> str | None:
        """Return, in one line, what the SavedModel predicts otherwise than the run did; None where nothing is."""
        if not self.examples or (self.saved_model is not None and self.saved_model <= self.tolerance):
            return None
        away = f"up to {self.saved_model:.3g} away from the run" if self.saved_model is not None else None
        return f"the SavedModel predicts {away or 'numbers that are not finite'}; tolerance {self.tolerance:.3g}"


class ExportRecord(Part):
    """One exported model."""

    schema_version: Annotated[Integer, no_newer_than(EXPORT_SCHEMA_VERSION)] = EXPORT_SCHEMA_VERSION
    study: str
    workload: str
    module: str
    status: Literal["ok", "different", "failed"]
    reason: Redacted | None = None
    run: str | None = None  # <device>/<workload>/<cell>/r<repeat>, whose weights these are
    files: dict[str, ExportedFile] = Field(default_factory=dict)  # by path below the export's folder
    check: ExportCheck | None = None
    versions: dict[str, str] = Field(default_factory=dict)


def read_export(path: Path) -> ExportRecord:
    """Read export.json; raises StudyError that names the file when it is cut, garbled or of another schema."""
    return read_as(ExportRecord, path, f"export schema {EXPORT_SCHEMA_VERSION}")
