"""Export one workload's trained model: everything between the records of its runs and export.json. No framework here.

The folder is written aside and takes the old one's place whole. A failed export is an export.json that says why.
"""

import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from whichdevice.base.code_hash import content_key
from whichdevice.base.cpu import thread_environment, usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.files import checksum
from whichdevice.base.identity import installed_versions
from whichdevice.base.locks import beside_no_measurement
from whichdevice.base.supervisor import Finish, end_from_inside, supervise_module
from whichdevice.forecast.products import EXPORT_RECORD, ExportCheck, ExportedFile, ExportRecord
from whichdevice.measure.machine.facts import OF_BACKEND
from whichdevice.measure.record import Record
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Study
from whichdevice.study.exporting.process import Job
from whichdevice.study.records.store import artefact_path, read_record
from whichdevice.study.request import build_request, dataset_folder, run_key
from whichdevice.study.study_cells import model_of, study_runs

TIMEOUT = 1800.0  # seconds
EXPORT_ENVIRONMENT = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
PROCESS = "whichdevice.study.exporting.process"


class Learned(NamedTuple):
    """A run that learned, and the path of its record."""

    record: Record
    path: Path

    def artefact(self, name: str) -> Path | None:
        """Path of an artefact; None where the run kept none. Raises StudyError where it is gone or was changed."""
        artefact = self.record.artefacts.get(name)
        if artefact is None:
            return None
        path = artefact_path(self.path, artefact.file)
        if path is None or checksum(path) != artefact.sha256:
            raise StudyError(f"{self.path}: its {name} are gone or differ from their checksum; measure the run again")
        return path


def best_learned(workload: str, record_paths: Iterable[Path]) -> Learned:
    """The run with the most training data, then the most epochs, then the best final quality; the first of equals.

    Raises StudyError where none learned and kept its weights.
    """
    candidates: list[Learned] = []
    for path in sorted(record_paths):
        try:
            record = read_record(path)
        except StudyError:
            continue  # it stands as unreadable in table runs
        if record.status == "ok" and record.epochs and "weights" in record.artefacts:
            candidates.append(Learned(record, path))
    if not candidates:
        raise StudyError(f"no run of {workload} has learned and kept its weights; see train.epochs and table runs")
    return max(candidates, key=lambda one: (one.record.asked.fraction, len(one.record.epochs), _quality(one.record)))


def _quality(record: Record) -> float:
    """The validation metric, else the negative loss; minus infinity where neither is known."""
    facts, results = record.workload, record.results
    value, sign = results.get("validation_loss", results.get("loss")), -1.0
    if facts is not None and facts.metric is not None:
        value = results.get(f"validation_{facts.metric}", results.get(f"training_{facts.metric}"))
        sign = 1.0 if facts.higher_is_better else -1.0
    return sign * float(value) if isinstance(value, int | float) and value == value else float("-inf")


def learning_runs(study: Study, workload: str) -> list[Run]:
    """The workload's runs that train to the end, of every device."""
    runs = [run for run in study_runs(study) if run.cell.workload == workload]
    return [run for run in runs if build_request(study, run).learn]


def export_path(study: Study, workload: str) -> Path:
    """Return where the export's record is or will be, relative to the working directory.

    Its folder is named by a hash of the code and of the runs whose best model it holds.
    """
    runs = [(run.path, run_key(study, run)) for run in learning_runs(study, workload)]
    key = content_key(model_of(study, workload).hash("whichdevice.study.exporting.export", PROCESS), sorted(runs))
    return Path(study.root) / "models" / workload / key / EXPORT_RECORD


def export_model(study: Study, workload: str, record_paths: Iterable[Path], log: Path) -> ExportRecord:
    """Export the best of these runs, check it in a fresh process, and write its record; what fails is its status.

    Waits while a measurement runs on this host, and lets none start meanwhile; not in a scheduler's job.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    home = export_path(study, workload).parent
    folder = home.with_name(f".{home.name}.new")
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir(parents=True)
    record = ExportRecord(
        study=study.study,
        workload=workload,
        module=model_of(study, workload).text,
        status="failed",
        versions=installed_versions(("keras", *OF_BACKEND["tensorflow"])),
    )
    try:
        try:
            record = _exported(record, study, best_learned(workload, record_paths), folder, log)
        except StudyError as error:
            record = record.model_copy(update={"reason": str(error)})
        (folder / EXPORT_RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")
        shutil.rmtree(home, ignore_errors=True)
        folder.rename(home)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return record


def _exported(draft: ExportRecord, study: Study, learned: Learned, folder: Path, log: Path) -> ExportRecord:
    if find_spec("tensorflow") is None:
        raise StudyError("a SavedModel needs tensorflow, which this environment lacks: make study ENV=cpu")
    asked, weights = learned.record.asked, learned.artefact("weights")
    if asked.module != draft.module:  # the processes import what it names
        raise StudyError(f"{learned.path} is of workload file {asked.module[:80]!r}, not {draft.module}; measure again")
    job = Job(
        request=asked,
        weights=weights,
        examples=learned.artefact("examples"),
        dataset=dataset_folder(study, asked.dataset) if asked.dataset is not None else None,
        folder=folder,
    )
    sent: dict[str, Any] = {}
    with beside_no_measurement(f"export of {draft.workload}"):
        finish = end_from_inside(lambda: _run(job, log, sent), log, folder)
    files = {
        path.relative_to(folder).as_posix(): ExportedFile(sha256=checksum(path), size=path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    draft = draft.model_copy(update={"run": learned.record.run, "files": files, "reason": finish.reason})
    if finish.status != "ok":
        return draft
    check = ExportCheck.model_validate(sent["check"])
    status = "ok" if check.difference is None else "different"
    return draft.model_copy(update={"status": status, "reason": check.difference, "check": check})


def _run(job: Job, log: Path, sent: dict[str, Any]) -> Finish:
    """The process's end; what it sends is added to `sent`."""

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "part":
            sent[message["place"]] = message["value"]

    variables = {**thread_environment(usable_cores()), **EXPORT_ENVIRONMENT}
    return supervise_module(PROCESS, job.model_dump_json(), variables, log, TIMEOUT, on_message)
