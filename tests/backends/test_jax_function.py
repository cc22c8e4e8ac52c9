"""JAX functions and Flax modules trained without Keras."""

from pathlib import Path

import numpy as np
import pytest
from backends.scenario import ROOT, request_for

from whichdevice.measure.backends import backend_class
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

BATCH, STEPS = 16, 3
EXAMPLES = ROOT / "docs" / "examples"
FILES = ["jax_mlp.py", "flax_cnn.py"]


def losses(path: Path, precision: str = "float32") -> list[float]:
    changes = {"backend": "jax", "precision": precision, "batch_size": BATCH, "module": str(path)}
    backend = backend_class("jax", "jax")(request_for(**changes), 1)
    backend.start()
    backend.initialise()
    workload = Model.read(str(path)).workload(Options(BATCH, precision))
    train, validation = workload.splits({})
    model = workload.model()
    training = backend.training_loop(workload, model, train, validation)
    batches = workload.order(train.examples, 1).take(STEPS)
    found = [training.run(batches[step : step + 1]).loss for step in range(STEPS)]
    training.reset()
    assert training.run(batches).loss == pytest.approx(np.mean(found), rel=1e-3 if precision == "float32" else 0.1)
    assert np.isfinite(training.evaluate().loss)
    inputs = workload.host_inputs(train, np.arange(BATCH))
    assert backend.forward_pass(model)(inputs).shape == (BATCH, 10)
    return found


@pytest.mark.parametrize("name", FILES)
def test_it_learns_and_starts_anew_from_the_same_state(name):
    assert len(set(losses(EXAMPLES / name))) == STEPS


def test_mixed_precision_computes_in_half_and_keeps_float32():
    half, full = (losses(EXAMPLES / "jax_mlp.py", precision) for precision in ("mixed_bfloat16", "float32"))
    assert half != full and half == pytest.approx(full, rel=0.1)
