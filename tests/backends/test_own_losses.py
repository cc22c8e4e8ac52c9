"""Regularisers and `add_loss` count on every backend, in both loops and on several replicas, as in plain `fit`."""

from pathlib import Path

import numpy as np
import pytest
from backends.scenario import play, play_each
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


def model_file(folder: Path, weights: float = 0.1, activities: float = 0.01) -> str:
    path = folder / f"own_{weights}_{activities}.py"
    path.write_text(FILE % {"weights": weights, "activities": activities})
    return str(path)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What each backend makes of it on one replica, played once in one process."""
    known: dict[str, dict[str, dict]] = {}

    def of(backend: str) -> dict[str, dict]:
        needs(backend)
        if backend not in known:
            folder = tmp_path_factory.mktemp(backend)
            own = model_file(folder)
            runs = {
                "epoch": {"workload": own},
                "fit": {"workload": own, "loop": "fit"},
                "of weights": {"workload": model_file(folder, activities=0.0)},
                "without": {"workload": model_file(folder, weights=0.0, activities=0.0)},
            }
            known[backend] = play_each(folder, runs, STEPS, backend=backend)
        return known[backend]

    return of


@pytest.fixture(scope="module")
def fitted(played) -> dict:
    """What Keras' own `fit` makes of it on TensorFlow."""
    return played("tensorflow")["fit"]


@pytest.mark.parametrize(("backend", "loop"), [way for way in WAYS if way != ("tensorflow", "fit")])
def test_both_loops_of_every_backend_train_on_the_models_own_losses(played, fitted, backend, loop):
    result = played(backend)[loop]
    assert np.abs(running(result["losses"]) - running(fitted["losses"])).max() < TOLERANCE
    assert result["weights"] == pytest.approx(fitted["weights"], rel=1e-4)
    assert result["evaluated"] == pytest.approx(fitted["evaluated"], rel=1e-3)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_replicas_count_a_regulariser_once(played, tmp_path, backend):
    """Of weights alone: an activity's loss is a sum over each replica's share of the batch."""
    one = played(backend)["of weights"]
    eight = play(tmp_path, STEPS, workload=model_file(tmp_path, activities=0.0), backend=backend, replicas=8)
    assert np.abs(running(eight["losses"]) - running(one["losses"])).max() < TOLERANCE
    assert eight["weights"] == pytest.approx(one["weights"], rel=1e-4)


def test_the_loss_that_is_reported_holds_the_regulariser(played, fitted):
    without = played("tensorflow")["without"]
    assert fitted["losses"][0] > without["losses"][0] + 1000 * TOLERANCE
    assert fitted["evaluated"][0] > without["evaluated"][0] + 1000 * TOLERANCE


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_a_scaled_loss_in_float16_holds_the_regulariser(tmp_path, backend):
    needs(backend)
    own = model_file(tmp_path, activities=0.0)  # an activity's loss is float16, which Keras' `fit` cannot add up
    runs = {loop: {"workload": own, "loop": loop} for loop in ("epoch", "fit")}
    epoch, fit = play_each(tmp_path, runs, STEPS, backend=backend, precision="mixed_float16").values()
    assert epoch["weights"] == pytest.approx(fit["weights"], rel=1e-2)
    assert epoch["losses"] == pytest.approx(fit["losses"], rel=1e-2)
