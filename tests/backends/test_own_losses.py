"""Regularisers and `add_loss` count on every backend, in both loops and on several replicas, as in plain `fit`."""

from pathlib import Path

import numpy as np
import pytest
from backends.scenario import play
from backends.test_same_learning import STEPS, TOLERANCE, WAYS, needs, running

pytestmark = pytest.mark.slow

FILE = """
import keras
from keras import layers, regularizers

INPUT, TARGET = {"shape": (12,)}, {"shape": (2,)}
LOSS, METRIC = "mse", "mae"


def optimizer():
    return keras.optimizers.SGD(0.05)


def model(options):
    return keras.Sequential([
        keras.Input((12,)),
        layers.Dense(8, "relu", kernel_regularizer=regularizers.L2(%(weights)s)),
        layers.ActivityRegularization(l2=%(activities)s) if %(activities)s else layers.Identity(),
        layers.Dense(2, dtype="float32"),
    ])
"""


def played(folder: Path, weights: float = 0.1, activities: float = 0.01, **request) -> dict:
    path = folder / "own.py"
    path.write_text(FILE % {"weights": weights, "activities": activities})
    return play(folder, STEPS, workload=str(path), **request)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> dict:
    """What Keras' own `fit` makes of it on TensorFlow."""
    return played(tmp_path_factory.mktemp("fit"), loop="fit")


@pytest.mark.parametrize(("backend", "loop"), [way for way in WAYS if way != ("tensorflow", "fit")])
def test_both_loops_of_every_backend_train_on_the_models_own_losses(fitted, tmp_path, backend, loop):
    needs(backend)
    result = played(tmp_path, backend=backend, loop=loop)
    assert np.abs(running(result["losses"]) - running(fitted["losses"])).max() < TOLERANCE
    assert result["weights"] == pytest.approx(fitted["weights"], rel=1e-4)
    assert result["evaluated"] == pytest.approx(fitted["evaluated"], rel=1e-3)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_replicas_count_a_regulariser_once(tmp_path, backend):
    """Of weights alone: an activity's loss is a sum over each replica's share of the batch."""
    needs(backend)
    for name in ("one", "eight"):
        (tmp_path / name).mkdir()
    one = played(tmp_path / "one", activities=0.0, backend=backend)
    eight = played(tmp_path / "eight", activities=0.0, backend=backend, replicas=8)
    assert np.abs(running(eight["losses"]) - running(one["losses"])).max() < TOLERANCE
    assert eight["weights"] == pytest.approx(one["weights"], rel=1e-4)


def test_the_loss_that_is_reported_holds_the_regulariser(fitted, tmp_path):
    without = played(tmp_path, weights=0.0, activities=0.0)
    assert fitted["losses"][0] > without["losses"][0] + 1000 * TOLERANCE
    assert fitted["evaluated"][0] > without["evaluated"][0] + 1000 * TOLERANCE


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_a_scaled_loss_in_float16_holds_the_regulariser(tmp_path, backend):
    needs(backend)
    for loop in ("epoch", "fit"):
        (tmp_path / loop).mkdir()
    results = [
        played(tmp_path / loop, activities=0.0, backend=backend, loop=loop, precision="mixed_float16")
        for loop in ("epoch", "fit")
    ]  # an activity's loss is float16, which Keras' own `fit` cannot add up on TensorFlow
    assert results[0]["weights"] == pytest.approx(results[1]["weights"], rel=1e-2)
    assert results[0]["losses"] == pytest.approx(results[1]["losses"], rel=1e-2)
