"""A model too large for the host ends as `out_of_memory` or `refused` on every framework, and the process goes on."""

import json
import os
import subprocess
import sys

import pytest
from backends.scenario import ROOT, request_for, variables_for

pytestmark = [pytest.mark.slow, pytest.mark.needs("linux")]  # only there does RLIMIT_DATA count private memory

SCRIPT = """
import json, sys
from whichdevice.measure.backends import backend_class
from whichdevice.measure.run_end import run_to_end
from whichdevice.base.events import Emitter
from whichdevice.measure.run_end import built_within
from whichdevice.models.loading import Model
from whichdevice.measure.record import Request

backend = backend_class(sys.argv[1])(Request(**json.loads(sys.argv[2])), threads=2)
backend.start()
backend.initialise()
import keras

def build(layers, units):
    stack = [keras.layers.Dense(units) for _ in range(layers)]
    return keras.Sequential([keras.Input((units,)), *stack])

emit = Emitter(sys.stdout)
for layers, units in ((1, 14_000), (20, 3_000), (1, 100)):  # 0.8 GB at once, 0.7 GB little by little, and a small one
    run_to_end(lambda: built_within(4e8, lambda: build(layers, units)), backend, Model.read("mnist_cnn"), emit)
"""


@pytest.mark.parametrize(
    "name",
    [
        "jax",
        pytest.param("tensorflow", marks=pytest.mark.long),
        pytest.param("torch", marks=[pytest.mark.long, pytest.mark.needs("torch")]),
    ],
)
def test_a_model_that_is_too_large_ends_for_lack_of_memory_and_a_small_one_after_it_is_built(name: str) -> None:
    request = request_for(backend=name)
    variables = {**variables_for(request), "PYTHONPATH": str(ROOT / "scripts")}
    command = [sys.executable, "-c", SCRIPT, name, request.model_dump_json()]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    ends = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"event": "end"')]
    at_once, little_by_little, small = ends
    assert at_once["status"] in ("out_of_memory", "refused"), at_once
    assert little_by_little["status"] in ("out_of_memory", "refused"), little_by_little
    assert small["status"] == "ok"
