"""Run a request in its own process, and make its record, whatever becomes of the process."""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from whichdevice.base.cpu import thread_environment, usable_cores
from whichdevice.base.files import checksum
from whichdevice.base.memory import available_memory
from whichdevice.base.supervisor import Finish, end_from_inside, supervise_module
from whichdevice.measure.backends import backend_class, backend_module
from whichdevice.measure.machine.energy import EnergyMeter
from whichdevice.measure.machine.facts import describe_machine, describe_software
from whichdevice.measure.machine.noise import NoiseWatch
from whichdevice.measure.record import Artefact, DataFacts, Record, Request
from whichdevice.measure.run_end import with_what_was_asked
from whichdevice.measure.step_work import counter_of, step_work
from whichdevice.models.loading import Model

Phase = Callable[..., object]  # takes what a process does, and numbers that go with it
SoundData = Callable[[], tuple[Path, DataFacts]]


@cache
def run_code_hash(model: Model, backend: str) -> str:
    """Hash of the code that a run of this model on this backend executes, and of what counts its operations."""
    return model.hash("whichdevice.measure.process", backend_module(backend, model.framework), counter_of(model))


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


def run_attempt(
    study: str, run: str, request: Request, folder: Path, log: Path, phase: Phase, data: SoundData | None = None
) -> Record:
    """Measure once, whatever becomes of the process; artefacts go to `folder`, output is added to `log`.

    `study` and `run` are names for the record. `phase` takes where it is. `data` reads the request's dataset through.
    A process killed from outside says nothing of the run: it is started again, and a second kill is a failure.
    Raises OSError where the disk was full: that is no fact of the run either.
    """
    drafts: list[RecordDraft] = []

    def start() -> Finish:
        if drafts:
            phase("killed from outside (signal 9): it starts again")
            shutil.rmtree(folder)
            folder.mkdir()
        drafts.append(RecordDraft(study, run, request, datetime.now(UTC)))
        return _supervised(request, drafts[-1], folder, log, phase, data)

    finish, draft = end_from_inside(start, log, folder, log.parent), drafts[-1]
    draft.fill("memory", {"peak_host": finish.peak_memory})  # of a process that died before it said its own
    return draft.close(finish.status, finish.reason, datetime.now(UTC), folder)


def _supervised(
    request: Request, draft: RecordDraft, folder: Path, log: Path, phase: Phase, data: SoundData | None
) -> Finish:
    threads, model = usable_cores(), Model.read(request.module)
    draft.merge("machine", describe_machine(request.kind, threads).model_dump(mode="json"))
    software = describe_software(request.backend).model_dump(mode="json")
    draft.merge("software", {**software, "code_hash": run_code_hash(model, request.backend)})
    job: dict[str, Any] = {"request": request.model_dump(mode="json"), "threads": threads, "folder": str(folder)}
    if request.mode is not None:
        phase("counting its operations")
        job["work"] = asdict(step_work(request))
    if data is not None:
        phase("reading its data through")
        dataset, facts = data()
        draft.merge("data", facts.model_dump())
        job["dataset"] = str(dataset)
    job["memory_limit"] = available_memory()
    environment = {**thread_environment(threads), **backend_class(request.backend).environment(request, threads)}
    phase("starting")

    reached = ["starting"]

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "progress":
            phase(message["phase"], message["value"])
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


@contextmanager
def fresh_folder(parent: Path) -> Iterator[Path]:
    """A folder for artefacts, named by the time, that is removed if no record is made."""
    folder = parent / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    folder.mkdir(parents=True)
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def remove_other_folders(parent: Path, record: Record) -> None:
    """Remove folders of earlier runs, of attempts that do not count, and empty ones."""
    kept = {Path(artefact.file).parts[0] for artefact in record.artefacts.values()}
    for other in parent.iterdir():
        if other.is_dir() and other.name not in kept:
            shutil.rmtree(other, ignore_errors=True)
