"""PyTorch modules trained without Keras, in an ordinary loop."""

from pathlib import Path

import numpy as np
import pytest
from backends.scenario import request_for
from beside import beside

from whichdevice.measure.backends import backend_class
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

BESIDE = beside(__file__)

pytestmark = pytest.mark.needs("torch")

BATCH, STEPS = 8, 4
TEXT = BESIDE["text"]


class Training:
    """A loop of the module in TEXT, with what it was built from."""

    def __init__(self, folder: Path, precision: str = "float32") -> None:
        path = folder / "net.py"
        path.write_text(TEXT, encoding="utf-8")
        changes = {"backend": "torch", "precision": precision, "batch_size": BATCH, "module": str(path)}
        backend = backend_class("torch", "torch")(request_for(**changes), 1)
        backend.start()
        backend.initialise()
        self.backend, workload = backend, Model.read(str(path)).workload(Options(BATCH, precision))
        train, validation = workload.splits({})
        self.model = workload.model()
        self.loop = backend.training_loop(workload, self.model, train, validation)
        self.batches = workload.order(train.examples, 1).take(STEPS)
        self.inputs = workload.host_inputs(train, np.arange(BATCH))

    def losses(self) -> list[float]:
        return [self.loop.run(self.batches[step : step + 1]).loss for step in range(STEPS)]


@pytest.fixture(autouse=True)
def torch():
    """PyTorch, which has its number of threads again afterwards."""
    import torch

    before = torch.get_num_threads()
    yield torch
    torch.set_num_threads(before)


def test_the_plain_loop_learns_and_starts_anew_from_the_same_state(tmp_path):
    this = Training(tmp_path)
    first = this.losses()
    assert len(set(first)) == STEPS and len(this.model.optimizer.state) > 0
    this.loop.reset()
    assert this.losses() == pytest.approx(first)  # weights, statistics, optimiser and dropout
    assert this.backend.flags()["steps"] == "eager"
    assert this.model.learning_rate() == 0.01


def test_evaluation_counts_every_example_and_predictions_are_the_logits(tmp_path):
    this = Training(tmp_path)
    whole = this.loop.evaluate()
    this.loop._size = 3  # 3 + 3 + 2
    assert this.loop.evaluate()[:2] == pytest.approx(whole[:2], rel=1e-5)
    predictions = this.loop.predict(np.arange(5, dtype=np.int32))
    assert predictions.shape == (5, 10) and predictions.dtype == np.float32
    forward = this.backend.forward_pass(this.model)
    assert forward(this.inputs).shape == (BATCH, 10)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "bfloat16"])
def test_half_precision_trains_and_the_record_has_its_types(tmp_path, precision):
    this = Training(tmp_path, precision)
    assert np.isfinite(this.losses()).all()
    types = this.backend.types()
    kept = next(this.model.module.parameters()).dtype
    assert (types.product, types.storage) == ("bfloat16", str(kept).removeprefix("torch."))
