"""What asks for the platform while a step is traced gets a TPU's answer, so that the program is the one a TPU gets."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("libtpu") is None, reason="no TPU compiler here (libtpu)"),
]


@pytest.fixture(scope="module")
def found() -> dict:
    """What one process compiled."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    script = Path(__file__).with_name("attention_programs.py")
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_only_while_a_step_is_traced_the_devices_are_the_slices(found):
    assert (found["before"], found["within"], found["after"]) == ("cpu", ["tpu", "tpu", 1], "cpu")


def test_keras_takes_the_attention_kernel_for_a_mask_that_it_knows_while_tracing(found):
    assert found["kernel"][0]


def test_keras_computes_plain_attention_for_a_mask_that_is_traced(found):
    has_kernel, of_analytic = found["plain"]
    assert not has_kernel  # Keras 3.15; once this fails, docs/tpu-model.md is to be changed
    assert of_analytic == pytest.approx(1, rel=0.05)
