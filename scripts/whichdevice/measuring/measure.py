"""Measure one run: everything between a study's config and a record on disk."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from whichdevice.cells import KEY, Run, parse_run
from whichdevice.config.load import read_study
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.locks import measurement_lock
from whichdevice.measuring.attempt import run_attempt
from whichdevice.measuring.progress import Progress
from whichdevice.measuring.repetition import chosen, repetition, with_note
from whichdevice.measuring.request import build_request, measuring_order, run_key
from whichdevice.records.schema import Record, Request
from whichdevice.records.store import write_record
from whichdevice.study_runs import study_runs

WAITING = "waiting for another measurement on this host"


def measure(config: Path, record_path: Path, log: Path, stream: IO[str] | None = None) -> Record:
    """Measure the run that `record_path` names in the study of `config`, and write its record.

    A run that fails, hangs, is killed or is refused is a record with that status; a disturbed one is repeated once.
    Raises StudyError where the study itself is at fault: no such run, no dataset, or code that was edited after the
    path was planned. A path without a key, as a person writes it by hand, takes whatever the run is now.
    Progress goes to `stream`, else to standard error.
    """
    study, run = read_study(config), parse_run(record_path.as_posix())
    request = build_request(study, run)
    ordered = measuring_order(study, study_runs(study))
    of_device = [other for other in ordered if other.cell.device == run.cell.device]
    if run not in of_device:
        raise StudyError(f"{run.path}: not a run of {config}; see `python -m whichdevice plan`")
    progress = Progress(run, of_device.index(run) + 1, len(of_device), stream)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    with measurement_lock(lambda: progress.phase(WAITING)):
        _require_planned(study, run, record_path)  # here: the code may be edited while this process waits
        with _fresh_folder(record_path.parent) as folder:
            record = run_attempt(study, run.path, request, folder, log, progress)
            record = _repeated(study, request, record, record_path.parent, log, progress)
            write_record(record, record_path)
        _remove_other_folders(record_path.parent, record)
    progress.done(record)
    return record


def _require_planned(study: Study, run: Run, record_path: Path) -> None:
    planned = record_path.parent.name
    if KEY.fullmatch(planned) and planned != run_key(study, run):
        raise StudyError(f"{run.path}: code or config was edited after this call was planned; make the same call again")


def _repeated(study: Study, request: Request, first: Record, parent: Path, log: Path, progress: Progress) -> Record:
    """The record that counts: a second attempt is made where the machine disturbed the first."""
    again, why_not = repetition(first, request, study.measure.retry_disturbed)
    if again is None:
        return with_note(first, why_not)
    progress.phase(f"disturbed ({first.noise.reasons[0]}): once more")
    with _fresh_folder(parent) as folder:
        return chosen(first, run_attempt(study, first.run, again, folder, log, progress))


@contextmanager
def _fresh_folder(parent: Path) -> Iterator[Path]:
    """A folder for artefacts, named by the time, that goes again if the record never comes about."""
    folder = parent / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    folder.mkdir(parents=True)
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _remove_other_folders(parent: Path, record: Record) -> None:
    """Of earlier runs, of attempts that do not count, and empty ones."""
    kept = {Path(artefact.file).parts[0] for artefact in record.artefacts.values()}
    for other in parent.iterdir():
        if other.is_dir() and other.name not in kept:
            shutil.rmtree(other, ignore_errors=True)
