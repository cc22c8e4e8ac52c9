"""From a study to exported models, and to records of predictions."""

import pytest

from whichdevice.records.products import read_export
from whichdevice.records.store import read_record

pytestmark = pytest.mark.slow
pytest.importorskip("jax")

STUDY = {
    "study": "models",
    "run_on": ["cpu"],
    "devices": {"cpu": {"kind": "cpu"}},
    "data": {"source": "standin"},
    "measure": {"seconds": 0.2, "min_steps": 2, "repeats": 1, "breakdown": False, "retry_disturbed": False},
    "train": {"epochs": 1},
    "workloads": {
        "mnist_cnn": {"batch_size": 256, "fraction": 0.03, "backend": "jax", "export": True},
        "decoder": {
            "batch_size": 2,
            "sequence_length": 16,
            "steps_per_epoch": 2,
            "backend": "jax",
            "options": {"layers": 1, "width": 16, "heads": 2, "vocabulary": 50},
            "export": True,
        },
        "mnist_cnn_predict": {"module": "mnist_cnn", "mode": "predict", "batch_size": 2},
    },
}
PREDICT = "cpu/mnist_cnn_predict/tensorflow-float32-b2/r1"


@pytest.fixture(scope="module")
def study(project):
    project.write(STUDY)
    done = project.snakemake("runs", "models", timeout=900)
    assert done.code == 0, done.out
    return project.folder / "results" / "models"


def test_a_model_trained_by_jax_predicts_the_same_as_a_saved_model_of_tensorflow(study):
    record = read_export(next(study.glob("models/mnist_cnn/*/export.json")))
    assert (record.status, record.reason) == ("ok", None)
    assert record.backend == "jax"
    assert record.check.weights_equal
    assert record.check.examples == 10_000
    assert record.check.keras <= record.check.tolerance
    assert record.check.saved_model <= record.check.tolerance
    assert record.check.same_class >= 9_990  # near ties may fall the other way on another backend
    for name, file in record.files.items():
        assert (next(study.glob("models/mnist_cnn/*")) / name).stat().st_size == file.size


def test_a_model_with_layers_of_its_own_file_is_read_back_and_predicts_the_same(study):
    record = read_export(next(study.glob("models/decoder/*/export.json")))
    assert (record.status, record.reason) == ("ok", None)
    assert record.input.shape == [None, 16] and record.output.shape == [None, 16, 50]
    assert record.check.weights_equal and record.check.saved_model <= record.check.tolerance


def test_predictions_were_measured_call_by_call(study):
    (path,) = (study / "runs" / PREDICT).glob("*/record.json")
    record = read_record(path)
    assert (record.status, record.reason, record.asked.mode) == ("ok", None, "predict")
    latency, steady = record.latency, record.steady
    assert latency.calls >= steady.steps and latency.p50 <= latency.p90 <= latency.longest
    assert steady.throughput == pytest.approx(2 * steady.steps / steady.seconds)
    assert record.workload.unit == "prediction"
    assert not record.epochs and not record.artefacts and record.breakdown is None


def test_nothing_is_exported_or_measured_twice(study, project):
    done = project.snakemake("-n", "runs", "models")
    assert not {"measure", "export"} & set(done.jobs), done.out
