"""Records on disk: written aside and renamed, so that no reader ever meets half of one."""

import os
from pathlib import Path

from pydantic import ValidationError

from whichdevice.errors import StudyError
from whichdevice.records.schema import SCHEMA_VERSION, Record


def write_record(record: Record, path: Path) -> None:
    """Replace the record at `path` atomically; the old one stays whole until then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(record.model_dump_json(indent=1))
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def read_record(path: Path) -> Record:
    """Read one record; raises StudyError that names the file when it is cut, garbled or of another schema."""
    try:
        return Record.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StudyError(f"cannot read record {path}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise StudyError(
            f"record {path} is not readable as schema {SCHEMA_VERSION}: {place}: {first['msg']}; "
            "delete it to measure anew"
        ) from error
