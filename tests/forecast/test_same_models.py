"""The same model in Keras and in PyTorch: as many operations in the compiled program and in the traced step."""

import importlib.util
from pathlib import Path

import pytest

from whichdevice.forecast.targets import cuda_folder
from whichdevice.forecast.work import Work
from whichdevice.forecast.xla.compile import compile_programs
from whichdevice.records.products import ProgramRequest

FOLDER = Path(__file__).with_name("same_models")
SMALL = {"layers": 2, "width": 128, "heads": 2}
PAIRS = {
    "small GPT-2": ("decoder", "torch_gpt2.py", dict(batch_size=8, sequence_length=128, options=SMALL)),
    "GPT-2": ("decoder", "torch_gpt2.py", dict(batch_size=8)),
    "ResNet-50": ("resnet50", "torch_resnet.py", dict(batch_size=64)),
}
missing = [name for name in ("torch", "transformers", "jax_plugins.xla_cuda12") if not importlib.util.find_spec(name)]
pytestmark = pytest.mark.skipif(bool(missing) or cuda_folder() is None, reason=f"not installed: {missing}")


def operations(work: Work) -> float:
    """Of a program that multiplies every place with every other, where a fused causal kernel leaves out half.

    Fused attention makes its scores again in the backward pass: five products to a program's four.
    """
    times = {"attention": 2.0, "attention backward": 2.0 * 4 / 5}
    return sum(item.operations * item.count * times.get(item.kind, 1.0) for item in work.items)


@pytest.mark.long
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_operations_agree(name, precision, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    built_in, file, settings = PAIRS[name]
    asked = [
        ProgramRequest.model_validate(
            {"device": "T4", "workload": "w", "module": module, "precision": precision, **settings}
        )
        for module in (built_in, str(FOLDER / file))
    ]
    keras, torch = (Work.from_dict(record.work) for record in compile_programs(asked))
    assert operations(torch) == pytest.approx(operations(keras), rel=0.03)
