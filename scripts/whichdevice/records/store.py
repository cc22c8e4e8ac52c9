"""Records on disk: written aside and renamed, so that no reader ever meets half of one."""

import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from whichdevice.errors import StudyError
from whichdevice.records.schema import SCHEMA_VERSION, Record

AnyRecord = TypeVar("AnyRecord", bound=BaseModel)


def write_record(record: Record, path: Path) -> None:
    """Replace the record at `path` atomically; the old one stays whole until then."""
    write_atomically(record.model_dump_json(indent=1), path)


def write_atomically(text: str, path: Path) -> None:
    """Write a file aside and rename it; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def read_record(path: Path) -> Record:
    """Read one record; raises StudyError that names the file when it is cut, garbled or of another schema."""
    return read_as(Record, path, f"schema {SCHEMA_VERSION}")


def read_as(model: type[AnyRecord], path: Path, schema: str) -> AnyRecord:
    """Read a record of any kind; raises StudyError that names the file and the schema."""
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StudyError(f"cannot read record {path}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        reason = first["msg"].removeprefix("Value error, ")
        raise StudyError(
            f"record {path} is not readable as {schema}: {place}: {reason}; delete it to make it anew"
        ) from error
