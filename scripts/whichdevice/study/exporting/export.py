"""Export one workload's trained model: everything between the records of its runs and export.json. No framework here.

The folder is written aside and takes the old one's place whole. A failed export is an export.json that says why, or
failed.json in the folder of an earlier export that succeeded.
"""

import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from whichdevice.base.code_hash import content_key
from whichdevice.base.cpu import thread_environment, usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.files import checksum, write_atomically
from whichdevice.base.identity import installed_versions
from whichdevice.base.locks import beside_no_measurement
from whichdevice.base.supervisor import Finish, end_from_inside, supervise_module
from whichdevice.forecast.products import EXPORT_RECORD, FAILED, ExportCheck, ExportedFile, ExportRecord, read_export
from whichdevice.measure.machine.facts import OF_BACKEND
from whichdevice.measure.record import Record
from whichdevice.models.loading import Model
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Study
from whichdevice.study.exporting.process import Job
from whichdevice.study.records.store import read_record
from whichdevice.study.request import build_request, dataset_folder, run_key
from whichdevice.study.study_cells import model_of, study_runs

MODELS_FOLDER = "models"
TIMEOUT = 1800.0  # seconds
EXPORT_ENVIRONMENT = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
EXPORT_PACKAGES = ("tensorflow", "keras")
PROCESS = "whichdevice.study.exporting.process"


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
            raise StudyError(f"{self.folder / 'record.json'}: artefact {name} is outside of its folder")
        try:
            whole = checksum(path) == artefact.sha256
        except OSError as error:
            raise StudyError(f"cannot read {path}: {error.strerror or error}; measure the run again") from error
        if not whole:
            raise StudyError(f"{path} differs from its checksum in record.json; measure the run again")
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
            candidates.append(Learned(record, path.parent))
    if not candidates:
        raise StudyError(f"no run of {workload} has learned and kept its weights; see train.epochs and table runs")
    return max(candidates, key=_worth)


def _worth(learned: Learned) -> tuple[float, int, float]:
    record = learned.record
    return record.asked.fraction, len(record.epochs), _quality(record)


def _quality(record: Record) -> float:
    """The validation metric, else the negative loss; minus infinity where neither is known."""
    facts, results = record.workload, record.results
    if facts is not None and facts.metric is not None:
        value = results.get(f"validation_{facts.metric}", results.get(f"training_{facts.metric}"))
        sign = 1.0 if facts.higher_is_better else -1.0
    else:
        value, sign = results.get("validation_loss", results.get("loss")), -1.0
    return sign * float(value) if isinstance(value, int | float) and value == value else float("-inf")


def export_code_hash(model: Model) -> str:
    """Hash of the code that an export of this model runs."""
    return model.hash("whichdevice.study.exporting.export", PROCESS)


def learning_runs(study: Study, workload: str) -> list[Run]:
    """The workload's runs that train to the end, of every device."""
    runs = [run for run in study_runs(study) if run.cell.workload == workload]
    return [run for run in runs if build_request(study, run).learn]


def export_path(study: Study, workload: str) -> Path:
    """Return where the export's record is or will be, relative to the working directory.

    Its folder is named by a hash of the code and of the runs whose best model it holds.
    """
    runs = [(run.path, run_key(study, run)) for run in learning_runs(study, workload)]
    key = content_key(export_code_hash(model_of(study, workload)), sorted(runs))
    return Path(study.root) / MODELS_FOLDER / workload / key / EXPORT_RECORD


def export_model(study: Study, workload: str, record_paths: Iterable[Path], log: Path) -> ExportRecord:
    """Export the best of these runs, check it in a fresh process, and write its record; what fails is its status.

    Waits while a measurement runs on this host, and lets none start meanwhile; not in a scheduler's job.
    """
    model = model_of(study, workload)
    draft = ExportRecord(
        study=study.study,
        workload=workload,
        module=model.text,
        status="failed",
        versions=installed_versions(("keras", *OF_BACKEND["tensorflow"])),
        code_hash=export_code_hash(model),
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    home = export_path(study, workload)
    folder = home.parent.with_name(f".{home.parent.name}.new")
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir(parents=True)
    try:
        try:
            record = _exported(draft, study, best_learned(workload, record_paths), folder, log)
        except StudyError as error:
            record = draft.model_copy(update={"reason": str(error)})
        if record.status == "failed" and _succeeded(home):
            record = record.model_copy(update={"reason": f"{record.reason}; the earlier export stays"})
            write_atomically(record.model_dump_json(indent=1), home.with_name(FAILED))
            home.touch()
            return record
        (folder / EXPORT_RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")
        shutil.rmtree(home.parent, ignore_errors=True)
        folder.rename(home.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return record


def _succeeded(home: Path) -> bool:
    try:
        return read_export(home).status != "failed"
    except StudyError:
        return False


def _exported(draft: ExportRecord, study: Study, learned: Learned, folder: Path, log: Path) -> ExportRecord:
    if missing := [name for name in EXPORT_PACKAGES if find_spec(name) is None]:
        raise StudyError(f"a SavedModel needs {missing[0]}, which this environment lacks: make study ENV=cpu")
    draft = draft.model_copy(update=_facts(learned))
    weights, dataset = learned.artefact("weights"), learned.record.asked.dataset
    if weights is None:
        raise StudyError(f"{learned.folder}: the run kept no weights; measure it again")
    if (said := learned.record.asked.module) != draft.module:  # the processes import what it names
        raise StudyError(
            f"{learned.folder} says that it ran workload file {said[:80]!r}, not {draft.module}; measure the run again"
        )
    job = Job(
        request=learned.record.asked,
        weights=weights,
        examples=learned.artefact("examples"),
        dataset=dataset_folder(study, dataset) if dataset is not None else None,
        folder=folder,
    )
    sent: dict[str, Any] = {}
    with beside_no_measurement(f"export of {draft.workload}"):
        finish = end_from_inside(lambda: _run(job, log, sent), log, folder)
    record = draft.model_copy(update={"files": _files(folder)})
    if finish.status != "ok":
        return record.model_copy(update={"reason": finish.reason})
    check = ExportCheck.model_validate(sent["check"])
    difference = _difference(check)
    status = "ok" if difference is None else "different"
    return record.model_copy(update={"status": status, "reason": difference, "check": check})


def _facts(learned: Learned) -> dict[str, Any]:
    record = learned.record
    metric = record.workload.metric if record.workload else None
    return {
        "run": record.run,
        "backend": record.asked.backend,
        "precision": record.asked.precision,
        "epochs": record.learned_epochs,
        "source": record.data.source if record.data else None,
        "metric": metric,
        "validation_metric": record.results.get(f"validation_{metric}") if metric else None,
    }


def _run(job: Job, log: Path, sent: dict[str, Any]) -> Finish:
    """The process's end; what it sends is added to `sent`."""

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "part":
            sent[message["place"]] = message["value"]

    variables = {**thread_environment(usable_cores()), **EXPORT_ENVIRONMENT}
    finish = supervise_module(PROCESS, job.model_dump_json(), variables, log, TIMEOUT, on_message)
    if finish.status == "timed_out":
        return Finish("timed_out", f"still exporting after {TIMEOUT:g} s; killed", finish.peak_memory)
    return finish


def _files(folder: Path) -> dict[str, ExportedFile]:
    """Every file below the folder, by its path there."""
    return {
        path.relative_to(folder).as_posix(): ExportedFile(sha256=checksum(path), size=path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _difference(check: ExportCheck) -> str | None:
    """Return, in one line, what the SavedModel predicts otherwise than the run did; None where nothing is."""
    difference = check.saved_model
    if not check.examples or (difference is not None and difference <= check.tolerance):
        return None
    what = "numbers that are not finite" if difference is None else f"up to {difference:.3g} away from the run"
    return f"the SavedModel predicts {what}; tolerance {check.tolerance:.3g}"
