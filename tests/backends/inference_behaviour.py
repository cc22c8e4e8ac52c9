"""How far predictions are from the model's own weights; a case of mode_runs.py."""

from pathlib import Path

import numpy as np
from backends.mode_runs import in_process

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
    """Runs of mode predict, which may differ in precision, not in replicas."""
    (folder / "tiny.py").write_text(MODEL, encoding="utf-8")
    module = str(folder / "tiny.py")
    return in_process("backends.inference_behaviour", folder, runs, module=module, mode="predict", **request)


def difference(backend, request) -> float:
    """The largest, between what is timed and what the weights give by NumPy."""
    from whichdevice.models.loading import Model

    workload = Model.read(request.module).asked(request)
    with backend.scope():
        model = workload.model()
        forward = backend.forward_pass(model)
    inputs = np.random.default_rng(3).normal(size=(request.batch_size, 6)).astype(np.float32)
    first, bias, second, last = model.get_weights()
    expected = np.maximum(inputs @ first + bias, 0) @ second + last
    predictions = forward(inputs)
    assert isinstance(predictions, np.ndarray) and predictions.shape == expected.shape
    return float(np.abs(predictions - expected).max())
