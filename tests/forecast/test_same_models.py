"""The same model in Keras and in PyTorch: as many operations, and about the same forecast."""

import importlib.util
from pathlib import Path

import pytest

from whichdevice.forecast.answer import answer
from whichdevice.forecast.targets import cuda_folder
from whichdevice.forecast.xla.compile import compile_programs
from whichdevice.records.products import ProgramRequest

FOLDER = Path(__file__).with_name("same_models")
SMALL = {"layers": 2, "width": 128, "heads": 2}
PAIRS = {
    "small GPT-2": ("decoder", "torch_gpt2.py", dict(batch_size=8, sequence_length=128, options=SMALL)),
    "GPT-2": ("decoder", "torch_gpt2.py", dict(batch_size=8)),
    "ResNet-50": ("resnet50", "torch_resnet.py", dict(batch_size=64)),
}
OPERATIONS, TIME = 0.03, 0.25  # largest differences
DEVICES = ("A100 SXM 40GB", "T4", "TPU v5e")
missing = [name for name in ("torchax", "transformers", "jax_plugins.xla_cuda12") if not importlib.util.find_spec(name)]
pytestmark = pytest.mark.skipif(bool(missing) or cuda_folder() is None, reason=f"not installed: {missing}")


def request(module: str, device: str, precision: str, **settings) -> ProgramRequest:
    values = {"device": device, "workload": "w", "module": module, "precision": precision}
    return ProgramRequest.model_validate({**values, **settings})


@pytest.mark.parametrize(
    ("name", "devices", "precisions"),
    [
        pytest.param("small GPT-2", DEVICES[:1], ["float32"], marks=pytest.mark.long),
        pytest.param("GPT-2", DEVICES, ["float32", "mixed_float16"], marks=pytest.mark.long),
        pytest.param("ResNet-50", DEVICES, ["float32", "mixed_float16"], marks=pytest.mark.long),
    ],
)
def test_operations_and_forecasts_agree(name, devices, precisions, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    built_in, file, settings = PAIRS[name]
    asked = [
        request(module, device, precision, **settings)
        for precision in precisions
        for device in devices
        if not (device.startswith("TPU") and precision == "mixed_float16")
        for module in (built_in, str(FOLDER / file))
    ]
    records = compile_programs(asked)
    assert [record.reason for record in records] == [None] * len(records)
    for keras, torch in zip(records[::2], records[1::2], strict=True):
        work, own = keras.facts.operations, torch.facts.operations
        assert own == pytest.approx(work, rel=OPERATIONS), keras.asked.path
        seconds, ours = (answer(record)["step_time"] for record in (keras, torch))
        assert ours == pytest.approx(seconds, rel=TIME), keras.asked.path
