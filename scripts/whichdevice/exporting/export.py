"""Export one workload's trained model: everything between the records of its runs and export.json. No framework here.

The folder is written aside and takes the old one's place whole. A failed export is an export.json that says why, or
failed.json beside an earlier export that succeeded.
"""

import hashlib
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from whichdevice.cells import Run
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.exporting.choice import Learned, best_learned
from whichdevice.exporting.folder import new_folder
from whichdevice.exporting.trained import Job
from whichdevice.host.affinity import thread_environment, usable_cores
from whichdevice.host.software import OF_BACKEND
from whichdevice.locks import beside_no_measurement
from whichdevice.measuring.outside import end_from_inside
from whichdevice.measuring.request import build_request, content_key, dataset_folder, run_key
from whichdevice.measuring.supervisor import Finish, supervise_module
from whichdevice.records.exported import FAILED, RECORD, ExportedFile, ExportRecord, read_export
from whichdevice.study_runs import study_runs
from whichdevice.workloads import workload_hash

FOLDER = "models"
TIMEOUT = 1800.0  # seconds for each of the two processes
ENVIRONMENT = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
NEEDED = ("tensorflow", "keras")


def export_code_hash(module: str) -> str:
    """Hash of the code that an export of this workload runs."""
    entries = ("whichdevice.exporting.export", "whichdevice.exporting.write", "whichdevice.exporting.check")
    return workload_hash(module, *entries)


def learning_runs(study: Study, workload: str) -> list[Run]:
    """The workload's runs that train to the end, of every device."""
    runs = [run for run in study_runs(study) if run.cell.workload == workload]
    return [run for run in runs if build_request(study, run).learn]


def export_path(study: Study, workload: str) -> Path:
    """Where the export's record is or will be, relative to the working directory.

    Its folder is named by a hash of the code and of the runs whose best model it holds.
    """
    runs = [(run.path, run_key(study, run)) for run in learning_runs(study, workload)]
    key = content_key(export_code_hash(study.workloads[workload].module or workload), sorted(runs))
    return Path(study.root) / FOLDER / workload / key / RECORD


def export_model(study: Study, workload: str, record_paths: Iterable[Path], log: Path) -> ExportRecord:
    """Export the best of these runs, check it in a fresh process, and write its record; what fails is its status.

    Waits while a measurement runs on this host, and lets none start meanwhile; not in a scheduler's job.
    """
    module = study.workloads[workload].module or workload
    draft = ExportRecord(
        study=study.study,
        workload=workload,
        module=module,
        status="failed",
        versions=export_versions(),
        code_hash=export_code_hash(module),
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    home = export_path(study, workload)
    with new_folder(home.parent) as folder:
        try:
            record = _exported(draft, study, best_learned(workload, record_paths), folder, log)
        except StudyError as error:
            record = draft.model_copy(update={"reason": str(error)})
        name = RECORD
        if record.status == "failed" and _succeeded(home):
            record = record.model_copy(update={"reason": f"{record.reason}; the earlier export stays"})
            name = FAILED
            _put_back(home.parent, folder)
        (folder / name).write_text(record.model_dump_json(indent=1), encoding="utf-8")
    return record


def export_versions() -> dict[str, str]:
    """Of the packages that an export needs, as far as they are installed here."""
    return {name: _version(name) for name in NEEDED if find_spec(name) is not None}


def _version(package: str) -> str:
    """Of the distribution that brings the package: TensorFlow has several, one of them for TPUs."""
    for name in OF_BACKEND.get(package, (package,)):
        with suppress(PackageNotFoundError):
            return version(name)
    return "unknown"


def _succeeded(home: Path) -> bool:
    try:
        return read_export(home).status != "failed"
    except StudyError:
        return False


def _put_back(earlier: Path, folder: Path) -> None:
    """The files of the earlier export in place of what the failed one left."""
    shutil.rmtree(folder)
    shutil.copytree(earlier, folder)


def _exported(draft: ExportRecord, study: Study, learned: Learned, folder: Path, log: Path) -> ExportRecord:
    if missing := [name for name in NEEDED if find_spec(name) is None]:
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
    parts: dict[str, Any] = {}
    with beside_no_measurement(
        lambda: print(f"{draft.workload}: waiting for a measurement on this host", file=sys.stderr)
    ):
        for part in ("write", "check"):
            finish = end_from_inside(partial(_run, part, job, log, parts), log, folder)
            if finish.status != "ok":
                break
    found = {**parts.pop("signature", {}), **parts, "files": _files(folder)}
    record = ExportRecord.model_validate({**draft.model_dump(mode="json"), **found})
    if finish.status != "ok":
        return record.model_copy(update={"reason": finish.reason})
    difference = _difference(record)
    status = "ok" if difference is None else "different"
    return record.model_copy(update={"status": status, "reason": difference})


def _facts(learned: Learned) -> dict[str, Any]:
    record = learned.record
    metric = record.workload.metric if record.workload else None
    return {
        "run": record.run,
        "backend": record.asked.backend,
        "precision": record.asked.precision,
        "epochs": len(record.epochs),
        "source": record.data.source if record.data else None,
        "metric": metric,
        "validation_metric": record.results.get(f"validation_{metric}") if metric else None,
    }


def _run(part: str, job: Job, log: Path, parts: dict[str, Any]) -> Finish:
    """One process; what it sends is merged into `parts`."""

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "part":
            parts.setdefault(message["place"], {}).update(message["value"])

    variables = {**thread_environment(usable_cores()), **ENVIRONMENT}
    module = f"whichdevice.exporting.{part}"
    finish = supervise_module(module, job.model_dump_json(), variables, log, TIMEOUT, on_message)
    if finish.status == "timed_out":
        return Finish("timed_out", f"still exporting after {TIMEOUT:g} s; killed", finish.peak_memory)
    return finish


def _files(folder: Path) -> dict[str, ExportedFile]:
    """Every file below the folder, by its path there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[path.relative_to(folder).as_posix()] = ExportedFile(sha256=digest, size=path.stat().st_size)
    return found


def _difference(record: ExportRecord) -> str | None:
    """What a reloaded model does otherwise than the run did, in one line; None where nothing is."""
    check = record.check
    if check is None:
        return "the check sent no result"
    if not check.weights_equal:
        return "the .keras file does not hold the weights that the run saved"
    if not check.examples:
        return None
    for name, difference in (("the .keras file", check.keras), ("the SavedModel", check.saved_model)):
        if difference is None or not difference <= check.tolerance:
            told = "numbers that are not finite" if difference is None else f"up to {difference:.3g} beside the run"
            return f"{name} predicts {told}; tolerance {check.tolerance:.3g}"
    return None
