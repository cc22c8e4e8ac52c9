"""One attempt at a run: one measured process, watched and supervised, as a record."""

import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whichdevice.backends import backend_class
from whichdevice.config.model import Study
from whichdevice.datasets.prepare import sound_dataset
from whichdevice.machine.cpu import available_memory, thread_environment, usable_cores
from whichdevice.machine.energy import EnergyMeter
from whichdevice.machine.facts import describe_machine, describe_software
from whichdevice.machine.noise import NoiseWatch
from whichdevice.measuring.assemble import RecordDraft
from whichdevice.measuring.outside import end_from_inside
from whichdevice.measuring.progress import Progress
from whichdevice.measuring.request import dataset_folder, run_code_hash
from whichdevice.measuring.supervisor import Finish, supervise_job
from whichdevice.records.schema import DataFacts, Record, Request


def run_attempt(study: Study, run: str, request: Request, folder: Path, log: Path, progress: Progress) -> Record:
    """Measure once, whatever becomes of the process; artefacts go to `folder`, output is added to `log`.

    A process killed from outside says nothing of the run: it is started once more, and a second time is a failure.
    Raises OSError where the disk was full: that is no fact of the run either.
    """
    drafts: list[RecordDraft] = []

    def start() -> Finish:
        if drafts:
            progress.phase("killed from outside (signal 9): once more")
            shutil.rmtree(folder)
            folder.mkdir()
        drafts.append(RecordDraft(study.study, run, request, datetime.now(UTC)))
        return _supervised(study, request, drafts[-1], folder, log, progress)

    finish, draft = end_from_inside(start, log, folder, log.parent), drafts[-1]
    draft.fill("memory", {"peak_host": finish.peak_memory})  # of a process that died before it said its own
    return draft.close(finish.status, finish.reason, datetime.now(UTC), folder)


def _supervised(
    study: Study, request: Request, draft: RecordDraft, folder: Path, log: Path, progress: Progress
) -> Finish:
    threads = usable_cores()
    draft.merge("machine", describe_machine(request.kind, threads).model_dump(mode="json"))
    software = describe_software(request.backend).model_dump(mode="json")
    draft.merge("software", {**software, "code_hash": run_code_hash(request.module, request.backend)})
    job: dict[str, Any] = {"request": request.model_dump(mode="json"), "threads": threads, "folder": str(folder)}
    if request.dataset is not None:
        data, source = dataset_folder(study, request.dataset), study.data.sources[request.dataset]
        progress.phase("reading its data through")
        info = sound_dataset(request.dataset, source, study.data.dir, data)
        draft.merge("data", DataFacts(dataset=info.name, source=info.source, checksum=info.checksum).model_dump())
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
    with tempfile.TemporaryDirectory() as scratch:
        job_file = Path(scratch) / "job.json"
        finish = supervise_job(job, job_file, environment, log, request.timeout, on_message, meter.sample)
    draft.merge("energy", meter.stop().model_dump(mode="json"))
    draft.merge("noise", watch.stop().model_dump(mode="json"))
    if finish.status == "timed_out":
        return replace(finish, reason=f"{finish.reason}, while {reached[-1]}")
    return finish
