"""The PyTorch backend: its start and its device. What Keras does on it is in torch_cases.py, what a GPU's
graph of an operation does in torch_graph_cases.py."""

import os

import pytest
from backends import scenario
from backends.cases import run_cases

from whichdevice.base.errors import StudyError
from whichdevice.measure.backends import backend_class
from whichdevice.measure.record import Request

pytestmark = pytest.mark.needs("torch")


def request_for(**changes) -> Request:
    return scenario.request_for(backend="torch", **changes)


def variables_for(**changes) -> dict[str, str]:
    return {**os.environ, **scenario.variables_for(request_for(**changes)), "PYTHONPATH": scenario.PATH}


@pytest.mark.parametrize(
    "which", [pytest.param("not long", marks=pytest.mark.slow), pytest.param("long", marks=pytest.mark.long)]
)
def test_cases_in_a_process_with_keras_on_pytorch(which):
    run_cases(variables_for(), which, "backends/torch_cases.py", "backends/torch_graph_cases.py")


def test_a_build_without_cuda_is_said_in_one_line(monkeypatch):
    from whichdevice.measure.backends import torch_devices

    monkeypatch.setattr("torch.version.cuda", None)
    with pytest.raises(StudyError, match=r"h200: PyTorch .* is built without CUDA; make study ENV=torch"):
        torch_devices.require_device(request_for(kind="gpu", device="h200"))


def test_no_gpu_is_said_in_one_line(monkeypatch):
    from whichdevice.measure.backends import torch_devices

    monkeypatch.setattr("torch.version.cuda", "13.0")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr(torch_devices.gpu, "absent_reason", lambda: None)
    with pytest.raises(StudyError, match=r"h200: PyTorch .* finds no GPU on this host"):
        torch_devices.require_device(request_for(kind="gpu", device="h200"))


def test_a_driver_that_is_too_old_is_said_in_pytorchs_words(monkeypatch):
    from whichdevice.measure.backends import torch_devices

    def refuse(*_, **__):
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040). Please update.\nMore")

    monkeypatch.setattr("torch.zeros", refuse)
    monkeypatch.setattr("torch.set_num_threads", lambda threads: None)
    with pytest.raises(StudyError, match=r"PyTorch .* cannot use the GPU: The NVIDIA driver .* too old .*update\.$"):
        torch_devices.take_device(request_for(kind="gpu", device="h200"), 2)


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "CUDA error: out of memory",
        "[enforce fail at alloc_cpu.cpp:113] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes",
    ],
)
def test_a_gpu_that_another_process_fills_is_out_of_memory(message):
    backend = backend_class("torch")(request_for(kind="gpu"), 2)
    assert backend.is_out_of_memory(RuntimeError(message))
    assert not backend.is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"))


def test_a_tpu_is_refused(monkeypatch):
    from whichdevice.measure.backends import torch_devices

    with pytest.raises(StudyError, match="runs PyTorch on CPU and GPU, not on tpu"):
        torch_devices.require_device(request_for(kind="tpu"))


@pytest.mark.parametrize("framework", ["keras", "torch"])
def test_several_replicas_are_refused_in_one_line(framework):
    with pytest.raises(StudyError, match="cpu: PyTorch runs on one replica, not on 2"):
        backend_class("torch", framework)(request_for(replicas=2), 1).initialise()
