"""The PyTorch backend: its start and its device. What Keras does on it is in torch_cases.py, what a GPU's
graph of an operation does in torch_graph_cases.py."""

from types import SimpleNamespace

import pytest
from backends import scenario

from whichdevice.base.errors import StudyError
from whichdevice.measure.backends import backend_class
from whichdevice.measure.record import Request

pytestmark = pytest.mark.needs("torch")
FILES = ("backends/torch_cases.py", "backends/torch_graph_cases.py")


def request_for(**changes) -> Request:
    return scenario.request_for(backend="torch", **changes)


@pytest.mark.parametrize(
    "which", [pytest.param("not long", marks=pytest.mark.slow), pytest.param("long", marks=pytest.mark.long)]
)
def test_cases_in_a_process_with_keras_on_pytorch(which):
    scenario.run_cases(scenario.variables_for(request_for()), which, *FILES)


def refuse(*_, **__):
    raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040). Please update.\nMore")


@pytest.mark.parametrize(
    ("kind", "cuda", "said"),
    [
        ("tpu", "13.0", "runs PyTorch on CPU and GPU, not on tpu"),
        ("gpu", None, "mine: PyTorch 2.9 is built without CUDA; make study ENV=torch"),
        ("gpu", "13.0", "mine: PyTorch 2.9 finds no GPU on this host"),
        ("gpu", "driver", r"PyTorch 2.9 cannot use the GPU: The NVIDIA driver .* too old .*update\.$"),
    ],
)
def test_a_device_that_pytorch_does_not_have_is_said_in_one_line(monkeypatch, kind, cuda, said):
    from whichdevice.measure.backends import torch_devices

    found = SimpleNamespace(device_count=lambda: int(cuda == "driver"))
    played = SimpleNamespace(
        __version__="2.9", version=SimpleNamespace(cuda=cuda), cuda=found, zeros=refuse,
        set_num_threads=lambda threads: None, OutOfMemoryError=MemoryError,
    )  # fmt: skip
    monkeypatch.setattr(torch_devices, "torch", played)
    monkeypatch.setattr(torch_devices.gpu, "absent_reason", lambda: None)
    asked = request_for(kind=kind, device="mine")
    with pytest.raises(StudyError, match=said):
        torch_devices.require_device(asked)
        torch_devices.take_device(asked, 2)


@pytest.mark.parametrize("framework", ["keras", "torch"])
def test_several_replicas_are_refused_in_one_line(framework):
    with pytest.raises(StudyError, match="cpu: PyTorch runs on one replica, not on 2"):
        backend_class("torch", framework)(request_for(replicas=2), 1).initialise()
