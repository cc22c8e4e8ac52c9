"""The same model in Keras and in PyTorch: as many operations in Keras' trace by JAX and in PyTorch's own."""

from pathlib import Path

import numpy as np
import pytest

from whichdevice.models.counting import model_costs
from whichdevice.models.datasets.base import get_dataset
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

FOLDER = Path(__file__).with_name("same_models")
SMALL = {"layers": 2, "width": 128, "heads": 2}
PAIRS = {
    "small GPT-2": ("decoder", "torch_gpt2.py", 8, {"sequence_length": 128, "given": SMALL}),
    "GPT-2": ("decoder", "torch_gpt2.py", 8, {}),
    "ResNet-50": ("resnet50", "torch_resnet.py", 64, {}),
}
pytestmark = pytest.mark.needs("torch")


def of_keras(module: str, options: Options) -> float:
    """Operations of a training step, every place times every other in attention."""
    workload = Model.read(module).workload(options)
    known = get_dataset(workload.dataset).arrays if workload.dataset is not None else {}
    workload.splits({name: np.broadcast_to(np.zeros((), each.dtype), each.shape) for name, each in known.items()})
    model = workload.model()
    return model_costs(model, example=workload.example(model), workload=workload).step_flops(options.batch_size)


def of_torch(path: Path, options: Options) -> float:
    """The same: a fused causal kernel leaves out half, and makes its scores again in the backward pass."""
    from whichdevice.forecast.torch.records import step_of
    from whichdevice.forecast.torch.trace import trace_step

    step = step_of(Model.read(str(path)).workload(options), options.precision, "train")
    times = {"attention": 2.0, "attention backward": 2.0 * 4 / 5}
    items = trace_step(step, options.batch_size).work.items
    return sum(item.operations * item.count * times.get(item.kind, 1.0) for item in items)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small GPT-2", pytest.param("GPT-2", marks=pytest.mark.long), "ResNet-50"])
def test_operations_agree(name):
    built_in, file, size, others = PAIRS[name]
    options = Options(size, "float32", 1.0, others.get("sequence_length"), given=others.get("given", {}))
    assert of_torch(FOLDER / file, options) == pytest.approx(of_keras(built_in, options), rel=0.03)
