"""Operations are counted with Keras on JAX, on PyTorch, and in a child process on JAX where Keras runs on another."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from backends.cases import PATH, run_cases
from needs import require

pytestmark = pytest.mark.slow

OWN = """
import keras

INPUT, TARGET = {"shape": (7, 6)}, {"shape": (7, 7)}
LOSS, OPTIMIZER = "mse", "sgd"


class Own(keras.layers.Layer):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def call(self, inputs):
        return keras.ops.einsum("btd,bsd->bts", inputs, inputs)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((inputs.shape[0], 7, 7), inputs.dtype)


def model(options):
    inputs = keras.Input((7, 6))
    return keras.Model(inputs, Own(3)(keras.layers.Dense(options.get("size", 5))(inputs)))
"""
COUNT = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options
from whichdevice.models.counting import model_costs

kept = Path(sys.argv[2])


def count(batch_size):
    found = []
    for module, given in json.loads(sys.argv[1]):
        workload = Model.read(module).workload(Options(batch_size, given=given))
        found.append(asdict(model_costs(workload.model(), workload=workload, kept=kept)))
    return found


counted = count(2)
files = sorted(kept.iterdir())
for file in files:
    file.write_text(json.dumps({**json.loads(file.read_text()), "forward_flops": 1.0}))
read = count(2)
for file in files:
    file.write_text("{")
print(json.dumps([counted, len(files), read, count(2)]))
"""


def variables(backend: str) -> dict[str, str]:
    return {
        **os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "KERAS_TORCH_DEVICE": "cpu", "PYTHONPATH": PATH,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("backend", "which"),
    [
        ("jax", "not long"),
        pytest.param("torch", "not long", marks=[pytest.mark.long, pytest.mark.needs("torch")]),
        pytest.param("jax", "long", marks=pytest.mark.long),
    ],
)
def test_the_cases_hold_on(backend: str, which: str) -> None:
    run_cases(variables(backend), which, "models/costs_cases.py")


@pytest.mark.parametrize(
    "backend", ["tensorflow", *(pytest.param(name, marks=pytest.mark.long) for name in ("torch", "jax"))]
)
def test_a_child_process_counts_on_jax_once_and_the_count_is_kept(backend: str, tmp_path: Path) -> None:
    """Of a built-in workload, and of a file with a layer that Keras could not read from a saved model."""
    if backend == "torch":
        require("torch")
    file = tmp_path / "own.py"
    file.write_text(OWN)
    asked = json.dumps([["mnist_official", {}], [str(file), {"size": 4}]])
    command = [sys.executable, "-c", COUNT, asked, str(tmp_path / "counts")]
    done = subprocess.run(command, env=variables(backend), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    counted, files, read, after_damage = json.loads(done.stdout.splitlines()[-1])
    official, own = counted
    assert (official["forward_flops"], official["parameters"]) == (14_521_344, 1_643_370)
    assert official["counted"] == own["counted"] == "every product of the traced step"
    assert own["forward_flops"] == 2 * 7 * 6 * 4 + 2 * 7 * 7 * 4
    assert own["parameters"] == 6 * 4 + 4
    assert files == 2
    assert [each["forward_flops"] for each in read] == [1.0, 1.0]
    assert after_damage == counted
