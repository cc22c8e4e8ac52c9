"""Which run of a workload is exported: the best that learned."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from whichdevice.errors import StudyError
from whichdevice.records.schema import Record
from whichdevice.records.store import read_record


class Learned(NamedTuple):
    """A run that learned, and its record's folder."""

    record: Record
    folder: Path

    def artefact(self, name: str) -> Path | None:
        """Path of an artefact that is there and whole; None where the run kept none."""
        artefact = self.record.artefacts.get(name)
        if artefact is None:
            return None
        path = self.folder / artefact.file
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise StudyError(f"{self.folder / 'record.json'}: artefact {name} lies outside of its folder")
        try:
            whole = hashlib.sha256(path.read_bytes()).hexdigest() == artefact.sha256
        except OSError as error:
            raise StudyError(f"cannot read {path}: {error.strerror or error}; measure the run again") from error
        if not whole:
            raise StudyError(f"{path} differs from its checksum in record.json; measure the run again")
        return path


def best_learned(workload: str, record_paths: Iterable[Path]) -> Learned:
    """The run with the most training data, then the most epochs, then the best final quality; the first of equals.

    Raises StudyError where none learned and kept its weights.
    """
    found: list[Learned] = []
    for path in sorted(record_paths):
        try:
            record = read_record(path)
        except StudyError:
            continue  # it stands as unreadable in table runs
        if record.status == "ok" and record.epochs and "weights" in record.artefacts:
            found.append(Learned(record, path.parent))
    if not found:
        raise StudyError(f"no run of {workload} has learned and kept its weights; see train.epochs and table runs")
    return max(found, key=_worth)


def _worth(learned: Learned) -> tuple[float, float, float]:
    record = learned.record
    return record.asked.fraction, record.learned_epochs, _quality(record)


def _quality(record: Record) -> float:
    """The validation metric, else the negative loss; minus infinity where neither is known."""
    facts, results = record.workload, record.results
    if facts is not None and facts.metric is not None:
        value = results.get(f"validation_{facts.metric}", results.get(f"training_{facts.metric}"))
        sign = 1.0 if facts.higher_is_better else -1.0
    else:
        value, sign = results.get("validation_loss", results.get("loss")), -1.0
    return sign * float(value) if isinstance(value, int | float) and value == value else float("-inf")
