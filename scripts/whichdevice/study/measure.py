"""Measure one run: everything between a study's config and a record on disk.

A disturbed run is repeated once in the same job, while the study's time for repeating lasts. The attempt is chosen by
the noise alone, never by the speed: choosing the faster one would favour luck. A run that learns is repeated without
learning, which can take hours: its timing then comes from the second process, its learning from the first.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

from whichdevice.base.errors import StudyError
from whichdevice.base.locks import measurement_lock
from whichdevice.measure.record import Attempt, DataFacts, Energy, Record, Request
from whichdevice.measure.running import fresh_folder, remove_other_folders, run_attempt
from whichdevice.study.cells import KEY, Run, parse_run, study_runs
from whichdevice.study.config.load import read_study
from whichdevice.study.config.model import Study
from whichdevice.study.prepare import sound_dataset
from whichdevice.study.records.store import recorded, write_record
from whichdevice.study.request import build_request, dataset_folder, measuring_order, run_key
from whichdevice.study.run_progress import Progress


def _sound_data(study: Study, dataset: str) -> tuple[Path, DataFacts]:
    """The folder of a dataset that was read through, and what it is."""
    folder = dataset_folder(study, dataset)
    info = sound_dataset(dataset, study.data.sources[dataset], study.data.dir, folder)
    return folder, DataFacts(dataset=info.name, source=info.source, checksum=info.checksum)


def _attempt_of(study: Study, run: str, request: Request, folder: Path, log: Path, progress: Progress) -> Record:
    data = None if request.dataset is None else partial(_sound_data, study, request.dataset)
    return run_attempt(study.study, run, request, folder, log, progress.phase, data)


def measure(
    config: Path,
    record_path: Path,
    log: Path,
    stream: IO[str] | None = None,
    on_wait: Callable[[str], object] | None = None,
) -> Record:
    """Measure the run that `record_path` names in the study of `config`, and write its record.

    A run that fails, hangs, is killed or is refused is a record with that status; a disturbed one is repeated once
    within the study's time for it.
    Raises StudyError where the study itself is at fault: no such run, no dataset, or code that was edited after the
    path was planned. A path without a key, as a person writes it, takes whatever the run is now.
    Progress goes to `stream`, else to standard error; that it waits for another measurement, to `on_wait` if given.
    """
    study, run = read_study(config), parse_run(record_path.as_posix())
    request = build_request(study, run)
    ordered = measuring_order(study, study_runs(study))
    of_device = [other for other in ordered if other.cell.device == run.cell.device]
    if run not in of_device:
        raise StudyError(f"{run.path}: not a run of {config}; see `python -m whichdevice plan`")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    with (
        Progress(run, of_device.index(run) + 1, len(of_device), stream) as progress,
        measurement_lock(f"study {study.study}, {run.path}", on_wait or progress.phase),
    ):
        _require_planned(study, run, record_path)  # here: the code may be edited while this process waits
        with fresh_folder(record_path.parent) as folder:
            record = _attempt_of(study, run.path, request, folder, log, progress)
            record = _repeated(study, request, record, record_path.parent, log, progress)
            write_record(record, record_path)
        remove_other_folders(record_path.parent, record)
    progress.done(record)
    return record


def _require_planned(study: Study, run: Run, record_path: Path) -> None:
    planned = record_path.parent.name
    if KEY.fullmatch(planned) and planned != run_key(study, run):
        raise StudyError(f"{run.path}: code or config was edited after this call was planned; make the same call again")


def _repeated(study: Study, request: Request, first: Record, parent: Path, log: Path, progress: Progress) -> Record:
    """The record that counts: a second attempt is made where the machine disturbed the first."""
    left = study.measure.retry_seconds
    if first.noise.disturbed:
        left -= sum(map(repeating, recorded(Path(study.root))))
    again, why_not = repetition(first, request, left)
    if again is None:
        return with_note(first, why_not)
    progress.phase(f"disturbed ({first.noise.reasons[0]}): it is measured again")
    with fresh_folder(parent) as folder:
        return chosen(first, _attempt_of(study, first.run, again, folder, log, progress))


def repeating(record: Record) -> float:
    """Seconds that a second attempt took; 0 without one."""
    if not record.attempts:
        return 0.0
    attempt = record.attempts[-1]
    began = attempt.started if attempt.number == 2 else attempt.ended
    return (record.ended - began).total_seconds()


def repetition(first: Record, request: Request, left_to_repeat: float) -> tuple[Request | None, str | None]:
    """The request of a second attempt, or None with the reason where a disturbed run is not repeated.

    It is expected to take as long as the first without learning, and starts while that is left to repeat, in seconds.
    """
    if first.status != "ok" or not first.noise.disturbed:
        return None, None
    took = (first.ended - first.started).total_seconds()
    learning = sum(epoch.seconds + (epoch.validation_seconds or 0.0) for epoch in first.epochs)
    if left_to_repeat < took - learning:
        return None, f"no time left: {max(left_to_repeat, 0.0):.0f} s of measure.retry_seconds"
    left = request.timeout - took
    if left < took - learning:
        return None, f"no time left: it took {took:.0f} s of measure.timeout = {request.timeout:g} s"
    again = request.model_copy(update={"timeout": left})
    if request.learn:
        again = again.model_copy(update={"learn": False, "epochs": 0, "learn_seconds": None})
    return again, None


def with_note(record: Record, why_not: str | None) -> Record:
    """The record of an only attempt, with the reason why a disturbed one was not repeated."""
    if why_not is None:
        return record
    return record.model_copy(update={"noise": record.noise.model_copy(update={"not_repeated": why_not})})


def chosen(first: Record, second: Record) -> Record:
    """One record of two attempts: the quieter one counts, the other is kept in `attempts`."""
    if second.status != "ok" or (second.noise.severity or 0.0) >= (first.noise.severity or 0.0):
        return first.model_copy(update={"attempts": [_attempt(2, second)], "ended": second.ended})
    kept = {"attempts": [_attempt(1, first)], "asked": first.asked, "started": first.started}
    if not first.asked.learn:
        return second.model_copy(update=kept)
    timing = {"cold": second.cold, "steady": second.steady, "noise": second.noise, "ended": second.ended}
    return first.model_copy(update={**kept, **timing, "energy": _with_timing_of(first.energy, second.energy)})


def _attempt(number: int, record: Record) -> Attempt:
    names = ("status", "reason", "noise", "cold", "steady", "energy", "started", "ended")
    return Attempt(number=number, learned=bool(record.epochs), **{name: getattr(record, name) for name in names})


def _with_timing_of(energy: Energy, other: Energy) -> Energy:
    """The energy of one process with the steady state of another."""
    parts = {name: part for name, part in energy.parts.items() if name != "steady"}
    parts |= {name: part for name, part in other.parts.items() if name == "steady"}
    beside = {name: _with_timing_of(part, other.beside.get(name, Energy())) for name, part in energy.beside.items()}
    return energy.model_copy(update={"parts": parts, "beside": beside})
