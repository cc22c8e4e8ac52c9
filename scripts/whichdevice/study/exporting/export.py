"""Export one workload's trained model: weights, .keras file and SavedModel, checked against what its run predicted.

The folder is written aside and takes the old one's place whole. A failed export is an export.json that says why.
Nothing is unpickled.
"""

import errno
import shutil
import traceback
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whichdevice.base.code_hash import content_key
from whichdevice.base.cpu import is_full
from whichdevice.base.errors import StudyError
from whichdevice.base.events import reason_line
from whichdevice.base.files import checksum
from whichdevice.base.identity import installed_versions
from whichdevice.base.locks import beside_no_measurement
from whichdevice.measure.machine.facts import OF_BACKEND
from whichdevice.measure.record import Record, Request
from whichdevice.models.datasets.store import load_dataset
from whichdevice.models.loading import Model
from whichdevice.models.shapes import leaves
from whichdevice.models.workloads.base import TrainingWorkload
from whichdevice.study.cells import Run, model_of, study_runs
from whichdevice.study.config.model import Study
from whichdevice.study.exporting.record import (
    EXPORT_RECORD,
    KERAS,
    SAVED_MODEL,
    WEIGHTS,
    ExportCheck,
    ExportedFile,
    ExportRecord,
)
from whichdevice.study.records.store import artefact_path, read_record
from whichdevice.study.request import build_request, dataset_folder, run_key

EXAMPLES_AT_ONCE = 500
TOLERANCE = {"float32": 1e-4}  # of the largest prediction: backends sum in another order
SHORT_TOLERANCE = 5e-2  # where products are shorter than float32


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
    return [run for run in study_runs(study) if run.cell.workload == workload and build_request(study, run).learn]


def export_path(study: Study, workload: str) -> Path:
    """Return where the export's record is or will be, relative to the working directory.

    Its folder is named by a hash of the code and of the runs whose best model it holds.
    """
    runs = [(run.path, run_key(study, run)) for run in learning_runs(study, workload)]
    key = content_key(model_of(study, workload).hash("whichdevice.study.exporting.export"), sorted(runs))
    return Path(study.root) / "models" / workload / key / EXPORT_RECORD


def export_model(study: Study, workload: str, record_paths: Iterable[Path]) -> ExportRecord:
    """Export the best of these runs, check it, and write its record; what fails is its status.

    Waits while a measurement runs on this host, and lets none start meanwhile; not in a scheduler's job. Raises OSError
    where the disk is full. Keras runs on TensorFlow, as the caller's environment says.
    """
    home = export_path(study, workload).parent
    folder = home.with_name(f".{home.name}.new")
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir(parents=True)
    module, versions = model_of(study, workload).text, installed_versions(("keras", *OF_BACKEND["tensorflow"]))
    facts: dict[str, Any] = {"status": "failed"}
    try:
        try:
            with beside_no_measurement(f"export of {workload}"):
                facts |= _exported(study, module, best_learned(workload, record_paths), folder)
        except StudyError as error:
            facts["reason"] = str(error)
        except Exception as error:
            traceback.print_exc()
            facts["reason"] = reason_line(error)
            if is_full(str(error), folder):
                raise OSError(errno.ENOSPC, f"no room left on the disk ({facts['reason']}): make some") from error
        record = ExportRecord(study=study.study, workload=workload, module=module, versions=versions, **facts)
        (folder / EXPORT_RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")
        shutil.rmtree(home, ignore_errors=True)
        folder.rename(home)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return record


def _exported(study: Study, module: str, learned: Learned, folder: Path) -> dict[str, Any]:
    """Export into the folder; what the record says of it."""
    if find_spec("tensorflow") is None:
        raise StudyError("a SavedModel needs tensorflow, which this environment lacks: make study ENV=cpu")
    asked, weights, examples = learned.record.asked, learned.artefact("weights"), learned.artefact("examples")
    if asked.module != module or weights is None:  # only what this study names is imported
        raise StudyError(f"{learned.path} is of workload file {asked.module[:80]!r}, not {module}; measure again")
    arrays = load_dataset(dataset_folder(study, asked.dataset)).arrays if asked.dataset is not None else {}
    check = write_forms(asked, arrays, weights, examples, folder)
    files = {
        path.relative_to(folder).as_posix(): ExportedFile(sha256=checksum(path), size=path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    status, reason = "ok" if check.difference is None else "different", check.difference
    return {"run": learned.record.run, "files": files, "status": status, "reason": reason, "check": check}


def write_forms(
    asked: Request, arrays: Mapping[str, np.ndarray], weights: Path, examples: Path | None, folder: Path
) -> ExportCheck:
    """Write weights, .keras file and SavedModel of a run into the folder, and compare the SavedModel with the run.

    The weights may be of any backend, `examples` are what the run predicted.
    """
    import keras
    import tensorflow as tf

    workload = Model.read(asked.module).asked(asked)
    if not isinstance(workload, TrainingWorkload):
        raise StudyError(f"{asked.workload}: a single operation has no model to export")
    validation = workload.splits(arrays)[1]
    if asked.learn_seconds is not None:
        validation = workload.part(validation)
    keras.config.set_dtype_policy("float32" if asked.precision == "tf32" else asked.precision)
    model = workload.model()
    model.load_weights(weights)
    shutil.copyfile(weights, folder / WEIGHTS)
    model.save(folder / KERAS)
    model.export(str(folder / SAVED_MODEL), verbose=False)
    if examples is None:
        return ExportCheck(examples=0, largest=0.0, tolerance=0.0)
    with np.load(examples, allow_pickle=False) as kept:
        index, recorded = kept["index"], kept["predictions"]
    served = tf.saved_model.load(str(folder / SAVED_MODEL))
    parts = [index[start : start + EXAMPLES_AT_ONCE] for start in range(0, len(index), EXAMPLES_AT_ONCE)]
    predicted = np.concatenate([_one_array(served.serve(workload.batch(validation.arrays, part)[0])) for part in parts])
    largest, difference = float(np.abs(recorded).max()), float(np.abs(predicted - recorded).max())
    tolerance = TOLERANCE.get(asked.precision, SHORT_TOLERANCE) * max(largest, 1e-6)
    return ExportCheck(examples=len(index), largest=largest, tolerance=tolerance, saved_model=difference)


def _one_array(prediction: Any) -> np.ndarray:
    """Predictions in float32; several outputs are flattened and joined, as a run records them."""
    arrays = [np.asarray(leaf, np.float32) for leaf in leaves(prediction)]
    return arrays[0] if len(arrays) == 1 else np.concatenate([leaf.reshape(len(leaf), -1) for leaf in arrays], axis=1)
