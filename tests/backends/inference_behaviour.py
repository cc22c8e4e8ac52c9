"""Runs of mode predict in a process of one backend: `python inference_behaviour.py JOB.json RESULT.json`."""

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
from backends.scenario import REQUEST, ROOT

MODEL = """import keras
import numpy as np

INPUT = {"shape": (6,), "dtype": "float32"}
TARGET = {"shape": (), "dtype": "int32", "below": 3}
LOSS = "sparse_categorical_crossentropy"


def model(options):
    wide = keras.layers.Dense(8, activation="relu")
    return keras.Sequential([keras.Input((6,)), wide, keras.layers.Dropout(0.5), keras.layers.Dense(3)])


def optimizer():
    return keras.optimizers.SGD()
"""


def measured(folder: Path, runs: dict[str, dict], **request) -> dict[str, dict]:
    """For each run the parts of its record, and how far its predictions are from the model's own; in one process.

    Runs may differ in loop and precision, not in replicas.
    """
    (folder / "tiny.py").write_text(MODEL, encoding="utf-8")
    asked = {**REQUEST, "module": str(folder / "tiny.py"), "mode": "predict", "learn": False, "epochs": 0,
             "seconds": 0.1, **request}  # fmt: skip
    job, result = folder / "job.json", folder / "result.json"
    job.write_text(json.dumps({"request": asked, "runs": runs}))
    from whichdevice.backends import backend_class
    from whichdevice.records.schema import Request

    variables = backend_class(asked["backend"]).environment(Request(**asked), 2)
    path = os.pathsep.join([str(ROOT / "scripts"), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, __file__, str(job), str(result)],
        env={**os.environ, **variables, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(result.read_text())


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    from whichdevice.backends import backend_class
    from whichdevice.errors import StudyError
    from whichdevice.measuring.events import Emitter
    from whichdevice.measuring.process import run_request
    from whichdevice.records.schema import Request

    found = {}
    for name, asked in job["runs"].items():
        request = Request(**{**job["request"], **asked})
        backend = backend_class(request.backend)(request, threads=2)
        backend.start()
        backend.initialise()
        stream = StringIO()
        try:
            run_request(backend, request, {"folder": ".", "memory_limit": 1e11}, Emitter(stream))
        except StudyError as error:
            found[name] = {"refused": str(error)}
            continue
        parts: dict = {}
        for message in map(json.loads, stream.getvalue().splitlines()):
            if message["event"] == "part":
                parts.setdefault(message["place"], {}).update(message["value"])
        found[name] = {**parts, "difference": difference(backend, request)}
    Path(sys.argv[2]).write_text(json.dumps(found))


def difference(backend, request) -> float:
    """The largest, between what is timed and what the weights give by NumPy."""
    from whichdevice.models.loading import workload_class
    from whichdevice.workloads.base import Options

    workload = workload_class(request.module)(Options(request.batch_size))
    with backend.scope():
        model = workload.model()
        forward = backend.forward_pass(model)
    inputs = np.random.default_rng(3).normal(size=(request.batch_size, 6)).astype(np.float32)
    first, bias, second, last = model.get_weights()
    expected = np.maximum(inputs @ first + bias, 0) @ second + last
    predictions = forward(inputs)
    assert isinstance(predictions, np.ndarray) and predictions.shape == expected.shape
    return float(np.abs(predictions - expected).max())


if __name__ == "__main__":
    main()
