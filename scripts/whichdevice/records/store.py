"""Records on disk: written aside and renamed, so that no reader ever meets half of one."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from whichdevice.errors import StudyError
from whichdevice.files import write_atomically
from whichdevice.records.foreign import foreign_run, why_refused
from whichdevice.records.part import Part
from whichdevice.records.schema import SCHEMA_VERSION, Artefact, Record

AnyRecord = TypeVar("AnyRecord", bound=BaseModel)


class Refused(Part):
    """What lies in the place of a record from elsewhere that was refused: the reason, and nothing of the record."""

    refused: str


def write_record(record: Record, path: Path) -> None:
    """Replace the record at `path` atomically; the old one stays whole until then."""
    write_atomically(record.model_dump_json(indent=1), path)


def read_record(path: Path) -> Record:
    """Read one record, checked as one from elsewhere is, for it may be.

    Raises StudyError that names the file when it is cut, garbled, of another schema, of another run than its path
    names, or was refused where it came from.
    """
    try:
        record = read_as(Record, path, f"schema {SCHEMA_VERSION}")
    except StudyError:
        if (why := _refusal(path)) is not None:
            raise StudyError(f"record {path} was refused: {why}") from None
        raise
    if (why := why_refused(record, foreign_run(path.absolute().as_posix()))) is not None:
        raise StudyError(f"record {path} {why}; delete it to make it anew")
    return record


def _refusal(path: Path) -> str | None:
    try:
        return refusal(path.read_bytes())
    except OSError:
        return None


def refusal(content: bytes) -> str | None:
    """Why a record was refused where it came from; None for the content of any other file."""
    try:
        return Refused.model_validate_json(content).refused
    except ValidationError:
        return None


def artefact_path(record_path: Path, artefact: Artefact) -> Path | None:
    """The file of an artefact; None where it is gone, or a link that leaves the record's folder."""
    path = record_path.parent / artefact.file
    inside = path.resolve().is_relative_to(record_path.parent.resolve())
    return path if inside and path.is_file() else None


def read_as(model: type[AnyRecord], path: Path, schema: str) -> AnyRecord:
    """Read a record of any kind; raises StudyError that names the file and the schema."""
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StudyError(f"cannot read record {path}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = " ".join(".".join(str(part) for part in first["loc"]).split())[:100] or "the file"
        reason = first["msg"].removeprefix("Value error, ")
        hint = "" if place == "schema_version" else "; delete it to make it anew"
        raise StudyError(f"record {path} is not readable as {schema}: {place}: {reason}{hint}") from error
