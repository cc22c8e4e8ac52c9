"""The best run that learned is exported, and only from whole files of its own folder."""

import hashlib

import pytest
import synthetic

from whichdevice.config.model import Train, Workload
from whichdevice.errors import StudyError
from whichdevice.exporting.export import best_learned
from whichdevice.records.schema import Artefact, Record
from whichdevice.records.store import write_record

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


def test_more_data_goes_before_a_better_metric(tmp_path):
    paths = written(tmp_path, {256: 0.9}, fraction=[0.1, 1.0])
    for path in paths:
        record = Record.model_validate_json(path.read_text())
        record.results["validation_accuracy"] = 0.99 if record.asked.fraction < 1 else 0.5
        write_record(record, path)
    assert best_learned("mnist_cnn", paths).record.asked.fraction == 1.0


def test_no_run_that_learned_is_a_clear_error(tmp_path):
    with pytest.raises(StudyError, match="no run of mnist_cnn has learned"):
        best_learned("mnist_cnn", [])
    garbled = tmp_path / "record.json"
    garbled.write_text("{")
    with pytest.raises(StudyError, match="no run of mnist_cnn has learned"):
        best_learned("mnist_cnn", [garbled])


def test_changed_and_missing_weights_are_named(tmp_path):
    learned = best_learned("mnist_cnn", written(tmp_path, {256: 0.9}))
    weights = learned.folder / "a/model.weights.h5"
    weights.write_bytes(b"others")
    with pytest.raises(StudyError, match="differs from its checksum"):
        learned.artefact("weights")
    weights.unlink()
    with pytest.raises(StudyError, match="measure the run again"):
        learned.artefact("weights")


def test_weights_outside_of_the_runs_folder_are_refused(tmp_path):
    with pytest.raises(StudyError, match="no run of mnist_cnn has learned"):
        best_learned("mnist_cnn", written(tmp_path, {256: 0.9}, file="../stolen"))
    learned = best_learned("mnist_cnn", written(tmp_path, {256: 0.9}))
    weights = learned.folder / "a/model.weights.h5"
    weights.rename(tmp_path / "stolen")
    weights.symlink_to(tmp_path / "stolen")
    with pytest.raises(StudyError, match="outside of its folder"):
        learned.artefact("weights")
