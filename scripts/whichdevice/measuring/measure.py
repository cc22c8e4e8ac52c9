"""Measure one run: everything between a study's config and a record on disk."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whichdevice.backends import backend_class
from whichdevice.cells import parse_run
from whichdevice.code_hash import code_hash
from whichdevice.config.load import read_study
from whichdevice.config.model import Study
from whichdevice.datasets.store import load_dataset
from whichdevice.devices.machine import describe_machine
from whichdevice.errors import StudyError
from whichdevice.host.affinity import thread_environment, usable_cores
from whichdevice.host.energy import EnergyMeter
from whichdevice.host.memory import available_memory
from whichdevice.host.noise import NoiseWatch
from whichdevice.host.software import describe_software
from whichdevice.locks import measurement_lock
from whichdevice.measuring.assemble import RecordDraft
from whichdevice.measuring.progress import Progress
from whichdevice.measuring.request import build_request, dataset_folder
from whichdevice.measuring.supervisor import Finish, supervise_job
from whichdevice.records.schema import DataFacts, Record, Request
from whichdevice.records.store import write_record
from whichdevice.study_runs import study_runs
from whichdevice.workloads import is_file_module


def run_code_hash(module: str, backend: str) -> str:
    """Hash of the code that a run of this workload on this backend really executes."""
    entries = ["whichdevice.measuring.process", f"whichdevice.backends.{backend}"]
    if is_file_module(module):
        return code_hash(*entries, files=[Path(module)])
    return code_hash(*entries, f"whichdevice.workloads.{module}")


def measure(config: Path, record_path: Path, log: Path) -> Record:
    """Measure the run that `record_path` names in the study of `config`, and write its record.

    A run that fails, hangs, is killed or is refused is a record with that status. Raises StudyError where
    the study itself is at fault: no such run, no dataset.
    """
    study, run = read_study(config), parse_run(record_path.as_posix())
    request = build_request(study, run)
    of_device = [other for other in study_runs(study) if other.cell.device == run.cell.device]
    if run not in of_device:
        raise StudyError(f"{run.path}: not a run of {config}; see `python -m whichdevice plan`")
    progress = Progress(run, of_device.index(run) + 1, len(of_device))
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    with measurement_lock(lambda: progress.phase("waiting for another measurement on this host")):
        started = datetime.now(UTC)
        folder = record_path.parent / started.strftime("%Y%m%dT%H%M%S.%fZ")
        with _attempt_folder(folder):
            draft = RecordDraft(study.study, run.path, request, started)
            finish = _supervised(study, request, draft, folder, log, progress)
            draft.merge("memory", {"peak_host": finish.peak_memory})
            record = draft.close(finish.status, finish.reason, datetime.now(UTC), folder)
            write_record(record, record_path)
            _remove_earlier_attempts(record_path.parent, keep=folder)
    progress.done(record)
    return record


def _supervised(
    study: Study, request: Request, draft: RecordDraft, folder: Path, log: Path, progress: Progress
) -> Finish:
    threads = usable_cores()
    draft.merge("machine", describe_machine(request.kind, threads).model_dump(mode="json"))
    software = describe_software(request.backend).model_dump(mode="json")
    draft.merge("software", {**software, "code_hash": run_code_hash(request.module, request.backend)})
    job: dict[str, Any] = {"request": request.model_dump(mode="json"), "threads": threads, "folder": str(folder)}
    if request.dataset is not None:
        data = dataset_folder(study, request.dataset)
        info = load_dataset(data).info
        draft.merge("data", DataFacts(dataset=info.name, source=info.source, checksum=info.checksum).model_dump())
        job["dataset"] = str(data)
    job["memory_limit"] = available_memory()
    environment = {**thread_environment(threads), **backend_class(request.backend).environment(request, threads)}
    progress.phase("starting")

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "progress":
            progress.phase(message["phase"], message["value"])
        elif message["event"] == "energy":
            meter.take(message)
        elif message["event"] == "timed_windows":
            watch.mark()
        else:
            draft.take(message)

    watch, meter = NoiseWatch(threads, request.kind), EnergyMeter(request.kind, request.replicas)
    watch.start()
    meter.start()
    with tempfile.TemporaryDirectory() as scratch:
        job_file = Path(scratch) / "job.json"
        finish = supervise_job(job, job_file, environment, log, request.timeout, on_message, meter.sample)
    draft.merge("energy", meter.stop().model_dump(mode="json"))
    draft.merge("noise", watch.stop().model_dump(mode="json"))
    return finish


@contextmanager
def _attempt_folder(folder: Path) -> Iterator[None]:
    """A folder for artefacts that goes again if it stays empty or the record never comes about."""
    folder.mkdir(parents=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if not any(folder.iterdir()):
        folder.rmdir()


def _remove_earlier_attempts(parent: Path, keep: Path) -> None:
    for other in parent.iterdir():
        if other.is_dir() and other.name != keep.name:
            shutil.rmtree(other, ignore_errors=True)
