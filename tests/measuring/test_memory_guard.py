"""A model too large for the host ends as `out_of_memory` or `refused` on every framework, and the process goes on."""

import json
import os
import subprocess
import sys

import pytest
from backends.scenario import ROOT, request_for, variables_for
from beside import beside

BESIDE = beside(__file__)

pytestmark = [pytest.mark.slow, pytest.mark.needs("linux")]  # only there does RLIMIT_DATA count private memory

SCRIPT = BESIDE["script"]


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
