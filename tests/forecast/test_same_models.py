"""The same model in Keras and in PyTorch: as many operations in the program of Keras and in PyTorch's trace."""

from pathlib import Path

import pytest

from whichdevice.forecast.count.process import count_step
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.work import Work
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

FOLDER = Path(__file__).with_name("same_models")
SMALL = {"layers": 2, "width": 128, "heads": 2}
PAIRS = {  # the last one is the share of PyTorch's operations that are padding, which a program's count leaves out
    "small GPT-2": ("decoder", "torch_gpt2.py", 8, {"sequence_length": 128, "given": SMALL}, 0.0),
    "GPT-2": ("decoder", "torch_gpt2.py", 8, {}, 0.0),
    "ResNet-50": ("resnet50", "torch_resnet.py", 64, {}, 0.03),
}
pytestmark = pytest.mark.needs("torch")


def of_keras(module: str, options: Options) -> float:
    """Operations of a training step, every place times every other in attention."""
    asked = ProgramRequest(
        device="H200", workload=module, module=module, precision="float32", batch_size=options.batch_size,
        sequence_length=options.sequence_length, options=options.given,
    )  # fmt: skip
    return Work.from_dict(count_step(asked).sizes[0].gpu).operations


def of_torch(path: Path, options: Options) -> float:
    """The same: a fused causal kernel leaves out half, and makes its scores again in the backward pass."""
    from whichdevice.forecast.torch.records import step_of
    from whichdevice.forecast.torch.trace import trace_step

    step = step_of(Model.read(str(path)).workload(options), options.precision, "train")
    times = {"attention": 2.0, "attention backward": 2.0 * 4 / 5}
    items = trace_step(step, options.batch_size).work.items
    return sum(item.operations * item.count * times.get(item.kind, 1.0) for item in items)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["small GPT-2", *(pytest.param(name, marks=pytest.mark.long) for name in ("GPT-2", "ResNet-50"))]
)
def test_operations_agree(name):
    built_in, file, size, others, padding = PAIRS[name]
    options = Options(size, "float32", 1.0, others.get("sequence_length"), given=others.get("given", {}))
    assert of_torch(FOLDER / file, options) * (1 - padding) == pytest.approx(of_keras(built_in, options), rel=0.005)
