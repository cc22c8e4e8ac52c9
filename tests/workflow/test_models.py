"""From a study to exported models, to a service that answers, and to records of services."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from whichdevice.records.exported import read_export
from whichdevice.records.store import read_record

pytestmark = pytest.mark.slow
pytest.importorskip("uvicorn", reason="sh envs/extra.sh serve installs it")
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
        "serve_mnist_cnn": {"module": "serve", "model": "mnist_cnn", "batch_size": 2, "clients": [1, 3]},
    },
}
SERVE = "cpu/serve_mnist_cnn/tensorflow-float32-b2/r1"


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


def test_a_service_was_measured_with_what_its_latency_is_made_of(study):
    record = read_record(next((study / "runs" / SERVE).glob("*/record.json")))
    assert (record.status, record.reason) == ("ok", None)
    serving = record.serving
    assert [load.clients for load in serving.loads] == [1, 3]
    assert all(load.requests >= 100 and not load.failed for load in serving.loads)
    assert min(serving.bare_call.p50, serving.bare_http.p50) > 0
    assert record.steady.throughput == pytest.approx(2 * record.steady.steps / record.steady.seconds)
    assert record.workload.unit == "prediction"


def test_nothing_is_exported_or_measured_twice(study, project):
    done = project.snakemake("-n", "runs", "models")
    assert not {"measure", "export"} & set(done.jobs), done.out


def test_the_command_serves_what_was_exported_until_ctrl_c(study, project):
    process = subprocess.Popen(
        [sys.executable, "-m", "whichdevice", "serve", "--study", "models", "--model", "mnist_cnn", "--port", "0"],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(project.folder / "scripts")},
    )
    try:
        line = process.stdout.readline()
        address = line.split("POST ")[1].split(" ")[0]
        body = json.dumps({"instances": [[[0] * 28] * 28] * 3}).encode()
        with urllib.request.urlopen(urllib.request.Request(address, body), timeout=60) as answer:
            predictions = json.load(answer)["predictions"]
        assert len(predictions) == 3
        assert sum(predictions[0]) == pytest.approx(1, abs=1e-5)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, rest
    assert rest.splitlines()[-1] == "Stopped."
    assert "Traceback" not in rest
