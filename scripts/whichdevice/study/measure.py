"""Measure one run: everything between a study's config and a record on disk.

A disturbed run is repeated once in the same job. The attempt is chosen by the noise alone, never by the speed: choosing
the faster one would favour luck. A run that learns is repeated without learning, which can take hours: its timing then
comes from the second process, its learning from the first.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from whichdevice.base.cpu import thread_environment, usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.files import checksum
from whichdevice.base.locks import measurement_lock
from whichdevice.base.memory import available_memory
from whichdevice.base.supervisor import Finish, end_from_inside, supervise_module
from whichdevice.measure.backends import backend_class
from whichdevice.measure.machine.energy import EnergyMeter
from whichdevice.measure.machine.facts import describe_machine, describe_software
from whichdevice.measure.machine.noise import NoiseWatch
from whichdevice.measure.record import Artefact, Attempt, DataFacts, Energy, Record, Request
from whichdevice.measure.run_end import with_what_was_asked
from whichdevice.models.counting import counts_folder
from whichdevice.study.cells import KEY, Run, model_of, parse_run, study_runs
from whichdevice.study.config.load import read_study
from whichdevice.study.config.model import Study
from whichdevice.study.prepare import sound_dataset
from whichdevice.study.records.store import write_record
from whichdevice.study.request import build_request, dataset_folder, measuring_order, run_code_hash, run_key
from whichdevice.study.run_progress import Progress


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
            name: Artefact(file=f"{folder.name}/{file}", sha256=checksum(folder / file))
            for name, file in files.items()
            if (folder / file).is_file()
        }
        return Record.model_validate(
            {**self._fields, "status": status, "reason": reason, "ended": ended, "artefacts": artefacts}
        )


def run_attempt(study: Study, run: str, request: Request, folder: Path, log: Path, progress: Progress) -> Record:
    """Measure once, whatever becomes of the process; artefacts go to `folder`, output is added to `log`.

    A process killed from outside says nothing of the run: it is started again, and a second kill is a failure.
    Raises OSError where the disk was full: that is no fact of the run either.
    """
    drafts: list[RecordDraft] = []

    def start() -> Finish:
        if drafts:
            progress.phase("killed from outside (signal 9): it starts again")
            shutil.rmtree(folder)
            folder.mkdir()
        drafts.append(RecordDraft(study.study, run, request, datetime.now(UTC)))
        return _supervised(study, request, drafts[-1], folder, log, progress)

    finish, draft = end_from_inside(start, log, folder, log.parent), drafts[-1]
    draft.fill("memory", {"peak_host": finish.peak_memory})  # of a process that died before it said its own
    return draft.close(finish.status, finish.reason, datetime.now(UTC), folder)


def _sound_data(study: Study, dataset: str) -> tuple[Path, DataFacts]:
    """The folder of a dataset that was read through, and what it is."""
    folder = dataset_folder(study, dataset)
    info = sound_dataset(dataset, study.data.sources[dataset], study.data.dir, folder)
    return folder, DataFacts(dataset=info.name, source=info.source, checksum=info.checksum)


def _supervised(
    study: Study, request: Request, draft: RecordDraft, folder: Path, log: Path, progress: Progress
) -> Finish:
    threads, model = usable_cores(), model_of(study, request.workload)
    draft.merge("machine", describe_machine(request.kind, threads).model_dump(mode="json"))
    software = describe_software(request.backend).model_dump(mode="json")
    draft.merge("software", {**software, "code_hash": run_code_hash(model, request.backend)})
    job: dict[str, Any] = {"request": request.model_dump(mode="json"), "threads": threads, "folder": str(folder)}
    if request.mode is not None:
        job["counts"] = str(counts_folder(model))
    if request.dataset is not None:
        progress.phase("reading its data through")
        data, facts = _sound_data(study, request.dataset)
        draft.merge("data", facts.model_dump())
        job["dataset"] = str(data)
    job["memory_limit"] = available_memory()
    environment = {**thread_environment(threads), **backend_class(request.backend).environment(request, threads)}
    progress.phase("starting")

    reached = ["starting"]

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "progress":
            progress.phase(message["phase"], message["value"])
            reached.append(message["phase"])
        elif message["event"] == "energy":
            meter.take(message)
        elif message["event"] == "timed_windows":
            watch.mark()
        else:
            draft.take(message)

    watch = NoiseWatch(threads, request.kind, replicas=request.replicas)
    meter = EnergyMeter(request.kind, request.replicas)
    watch.start()
    meter.start()
    finish = supervise_module(
        "whichdevice.measure.process", json.dumps({**job, "started": time.monotonic()}), environment, log,
        request.timeout, on_message, on_minute=meter.sample, limit_name="measure.timeout",
    )  # fmt: skip
    draft.merge("energy", meter.stop().model_dump(mode="json"))
    draft.merge("noise", watch.stop().model_dump(mode="json"))
    if finish.status == "timed_out":
        return replace(finish, reason=f"{finish.reason}, while {reached[-1]}")
    return finish


def measure(
    config: Path,
    record_path: Path,
    log: Path,
    stream: IO[str] | None = None,
    on_wait: Callable[[str], object] | None = None,
) -> Record:
    """Measure the run that `record_path` names in the study of `config`, and write its record.

    A run that fails, hangs, is killed or is refused is a record with that status; a disturbed one is repeated once.
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
    progress.phase(f"disturbed ({first.noise.reasons[0]}): it is measured again")
    with _fresh_folder(parent) as folder:
        return chosen(first, run_attempt(study, first.run, again, folder, log, progress))


def repetition(first: Record, request: Request, wanted: bool) -> tuple[Request | None, str | None]:
    """The request of a second attempt, or None with the reason where a disturbed run is not repeated."""
    if first.status != "ok" or not first.noise.disturbed:
        return None, None
    if not wanted:
        return None, "measure.retry_disturbed is off"
    took = (first.ended - first.started).total_seconds()
    learning = sum(epoch.seconds + (epoch.validation_seconds or 0.0) for epoch in first.epochs)
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


@contextmanager
def _fresh_folder(parent: Path) -> Iterator[Path]:
    """A folder for artefacts, named by the time, that is removed if no record is made."""
    folder = parent / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    folder.mkdir(parents=True)
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _remove_other_folders(parent: Path, record: Record) -> None:
    """Remove folders of earlier runs, of attempts that do not count, and empty ones."""
    kept = {Path(artefact.file).parts[0] for artefact in record.artefacts.values()}
    for other in parent.iterdir():
        if other.is_dir() and other.name not in kept:
            shutil.rmtree(other, ignore_errors=True)
