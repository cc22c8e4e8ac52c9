"""This project's pooling, dropout and layouts on CPUs compute what Keras' own do, for JAX and PyTorch."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from backends import cpu_kernels_behaviour
from backends.scenario import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["jax", "torch"])
def found(request, tmp_path_factory) -> dict:
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    result = tmp_path_factory.mktemp("kernels") / "result.json"
    path = os.pathsep.join([str(ROOT / "scripts"), str(ROOT / "tests")])
    variables = {"KERAS_BACKEND": request.param, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    command = [sys.executable, str(Path(cpu_kernels_behaviour.__file__)), request.param, str(result)]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(result.read_text())


def test_pooling_and_its_gradient_are_keras_own_also_where_values_are_equal(found):
    assert all(all(equal) for equal in found["pools"].values()), found["pools"]


def test_dropout_drops_the_share_asked_for_and_scales_the_rest(found):
    assert abs(found["dropped"] - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 300_001)
    assert found["kept"] == pytest.approx([0, 1 / 0.7], rel=1e-4)


def test_every_step_has_a_mask_of_its_own(found):
    assert found["repeated"] == pytest.approx(0.3**2 + 0.7**2, abs=0.01)


def test_neighbouring_elements_are_independent(found):
    assert found["neighbours"] < 0.02


def test_noise_shapes_are_left_to_keras(found):
    assert found["shared"]


def test_keras_has_its_own_back_afterwards(found):
    assert found["restored"]
