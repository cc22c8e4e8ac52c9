"""From the messages of a measured process to its record."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from whichdevice.measuring.failure_reason import with_what_was_asked
from whichdevice.records.schema import Artefact, Record, Request


class RecordDraft:
    """A record that grows message by message and can be closed at any point."""

    def __init__(self, study: str, run: str, request: Request, started: datetime) -> None:
        self._fields: dict[str, Any] = {
            "study": study,
            "run": run,
            "asked": request.model_dump(mode="json"),
            "started": started,
        }

    def take(self, message: Mapping[str, Any]) -> None:
        """Merge a `part` or `append` message; anything else is not for the record."""
        if message.get("event") == "part":
            self.merge(message["place"], message["value"])
        elif message.get("event") == "append":
            self._fields.setdefault(message["place"], []).append(message["value"])

    def merge(self, place: str, values: Mapping[str, Any]) -> None:
        """Merge values into one part of the record."""
        self._fields.setdefault(place, {}).update(values)

    def fill(self, place: str, values: Mapping[str, Any]) -> None:
        """Merge values into one part of the record, but for those that are there already."""
        self.merge(place, {**values, **self._fields.get(place, {})})

    def close(self, status: str, reason: str | None, ended: datetime, folder: Path) -> Record:
        """The finished record; artefacts named by the process are checked into it with their checksums."""
        files = self._fields.pop("artefacts", {})
        if status == "out_of_memory":
            reason = with_what_was_asked(reason, self._fields)
        artefacts = {
            name: Artefact(file=f"{folder.name}/{file}", sha256=_checksum(folder / file))
            for name, file in files.items()
            if (folder / file).is_file()
        }
        return Record.model_validate(
            {**self._fields, "status": status, "reason": reason, "ended": ended, "artefacts": artefacts}
        )


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
