"""An export is a record of what was checked, whatever its status."""

import errno
import hashlib
from types import SimpleNamespace

import pytest
import synthetic

from whichdevice.base.errors import StudyError
from whichdevice.base.locks import LOCK_FOLDER
from whichdevice.measure.record import Artefact, Record
from whichdevice.study.config.model import Train, Workload
from whichdevice.study.exporting import export
from whichdevice.study.exporting.export import best_learned, export_model, export_path
from whichdevice.study.exporting.record import ExportCheck, read_export
from whichdevice.study.records.store import read_record, write_record

CONTENT = b"weights"


def written(folder, accuracy: dict[int, float], file: str = "a/model.weights.h5", **workload):
    """Records of one learning run for each batch size, with that final accuracy; their paths."""
    study = synthetic.small_study(
        workloads={"mnist_cnn": Workload(batch_size=list(accuracy), **workload)}, train=Train(epochs=2, repeats=2)
    )

    def change(run, record: Record) -> Record:
        record.results["validation_accuracy"] = accuracy[run.cell.batch_size]
        digest = hashlib.sha256(CONTENT).hexdigest()
        record.artefacts = {"weights": Artefact(file=file, sha256=digest)}
        path = folder / "runs" / run.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
        return record

    return synthetic.write_study(study, folder, change=change, artefacts=False, devices=["cpu"])[1]


def test_the_best_validation_metric_is_taken(tmp_path):
    learned = best_learned("mnist_cnn", written(tmp_path, {256: 0.91, 512: 0.97, 1024: 0.93}))
    assert learned.record.asked.batch_size == 512
    assert learned.artefact("weights").read_bytes() == CONTENT
    assert learned.artefact("predictions") is None


def test_no_run_that_learned_is_a_clear_error(tmp_path):
    with pytest.raises(StudyError, match="no run of mnist_cnn has learned"):
        best_learned("mnist_cnn", [])
    garbled = tmp_path / "record.json"
    garbled.write_text("{")
    with pytest.raises(StudyError, match="no run of mnist_cnn has learned"):
        best_learned("mnist_cnn", [garbled])


def test_changed_and_missing_weights_are_named(tmp_path):
    learned = best_learned("mnist_cnn", written(tmp_path, {256: 0.9}))
    weights = learned.path.parent / "a/model.weights.h5"
    for change in (lambda: weights.write_bytes(b"others"), weights.unlink):
        change()
        with pytest.raises(StudyError, match="its weights are gone or differ from their checksum"):
            learned.artefact("weights")


CHECK = ExportCheck(examples=10, largest=1.0, tolerance=1e-4, saved_model=1e-6)


@pytest.fixture
def exported(working_folder, monkeypatch):
    """Exports of what the test says in place of TensorFlow."""
    study = synthetic.small_study(workloads={"mnist_cnn": Workload(export=True)}, train=Train(epochs=2))
    records = written(working_folder / "results" / "small", {256: 0.9})
    monkeypatch.setattr(export, "load_dataset", lambda folder: SimpleNamespace(arrays={}))
    monkeypatch.setenv(LOCK_FOLDER, str(working_folder))  # others may measure meanwhile
    study = study.model_copy(update={"data": study.data.model_copy(update={"sources": {"mnist": "standin"}})})

    def run(error: Exception | None = None, **check):
        def write_forms(asked, arrays, weights, examples, folder) -> ExportCheck:
            assert asked.module == "mnist_cnn"
            (folder / "saved_model" / "1").mkdir(parents=True)
            (folder / "saved_model" / "1" / "saved_model.pb").write_bytes(b"graph")
            if error is not None:
                raise error
            return CHECK.model_copy(update=check)

        monkeypatch.setattr(export, "write_forms", write_forms)
        export_model(study, "mnist_cnn", records)
        return read_export(export_path(study, "mnist_cnn"))

    return run


def test_a_record_of_another_workload_file_is_not_exported_and_the_file_not_run(exported, working_folder):
    for path in (working_folder / "results/small/runs").rglob("record.json"):
        record = read_record(path)
        asked = record.asked.model_copy(update={"module": "evil.py"})
        write_record(record.model_copy(update={"asked": asked}), path)
    record = exported()
    assert (record.status, record.files) == ("failed", {})
    assert record.reason.endswith("is of workload file 'evil.py', not mnist_cnn; measure again")


@pytest.mark.parametrize(
    ("check", "told"),
    [
        ({"saved_model": 0.5}, "the SavedModel predicts up to 0.5 away from the run; tolerance 0.0001"),
        ({"saved_model": None}, "numbers that are not finite"),
    ],
)
def test_a_model_that_predicts_otherwise_is_different(exported, check, told):
    record = exported(**check)
    assert record.status == "different"
    assert told in record.reason


def test_a_failure_is_a_record_that_says_why(exported):
    record = exported(ValueError("unknown layer"))
    assert (record.status, record.reason) == ("failed", "ValueError: unknown layer")


def test_a_full_disk_leaves_no_record_and_no_folder(exported, working_folder):
    with pytest.raises(OSError, match="no room left on the disk"):
        exported(OSError(errno.ENOSPC, "No space left on device", "model.keras"))
    assert not list((working_folder / "results/small").glob("models/*/*/*"))
