"""GPUs are found through NVML, which may be missing, broken or hang."""

import sys
import threading
import time
from types import SimpleNamespace

import pytest
from beside import beside

from whichdevice.measure.machine import gpu
from whichdevice.measure.machine.gpu import NvmlError, cuda_variables, open_nvml

BESIDE = beside(__file__)


def test_without_the_python_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NvmlError, match="nvidia-ml-py is not installed"):
        open_nvml()


@pytest.mark.parametrize(
    ("error", "said"), [("NVMLError_LibraryNotFound", "not installed"), ("NVMLError", "Driver version mismatch")]
)
def test_without_the_driver_and_with_a_broken_one_there_is_no_gpu_and_the_reason(nvml, error, said) -> None:
    def fail() -> None:
        raise getattr(nvml, error)("Driver version mismatch")

    nvml.nvmlInit = fail
    assert gpu.present() == 0
    assert gpu.absent_reason() == f"no GPU found on this host (NVML: {said})"
    assert gpu.describe() == gpu.DeviceFacts()


def test_a_hanging_driver_costs_no_more_than_the_patience(nvml) -> None:
    end = threading.Event()
    nvml.nvmlInit = end.wait
    start = time.monotonic()
    with pytest.raises(NvmlError, match=r"no answer within 0\.1 s"):
        open_nvml(patience=0.1)
    assert time.monotonic() - start < 60  # it hangs for ever
    end.set()


@pytest.mark.parametrize(("visible", "replicas", "left"), BESIDE["a process sees as many gpus as it has replicas"])
def test_a_process_sees_as_many_gpus_as_it_has_replicas(monkeypatch, visible, replicas, left) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert cuda_variables(replicas) == {"CUDA_VISIBLE_DEVICES": left, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert cuda_variables(replicas)["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"  # as NVML numbers them, which counts energy


@pytest.mark.parametrize(("visible", "count", "name"), BESIDE["cuda visible devices is heeded"])
def test_cuda_visible_devices_is_heeded(nvml, monkeypatch, visible, count, name) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=2**30, free=2**29)
    nvml.nvmlDeviceGetName = lambda handle: "a slice" if handle == "MIG-a" else f"NVIDIA H{handle}00"
    assert gpu.present() == count
    assert gpu.describe().name == name


def test_hidden_gpus_are_said_to_be_hidden(nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpu.absent_reason() == "no GPU found on this host (CUDA_VISIBLE_DEVICES='-1' hides all 2)"


def test_a_gpu_under_mig_is_no_device_until_a_slice_is_named(nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.sliced = {0, 1}
    asked = "no GPU found on this host (MIG is on: name a slice of `nvidia-smi -L` in CUDA_VISIBLE_DEVICES)"
    assert gpu.absent_reason() == asked
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1a")
    assert gpu.absent_reason() == asked
    assert gpu.describe().name is None  # not the whole GPU's
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-7")
    nvml.nvmlDeviceGetName = lambda handle: f"NVIDIA H100 {handle} 1g.10gb"
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=10 * 2**30, free=2**29)
    assert gpu.absent_reason() is None
    assert (gpu.describe().name, gpu.describe().memory) == ("NVIDIA H100 MIG-7 1g.10gb", 10 * 2**30)


def test_the_only_slice_that_a_container_sees_is_the_device(nvml) -> None:
    nvml.sliced, nvml.slices = {0}, 1
    nvml.nvmlDeviceGetName = lambda handle: f"NVIDIA H100 {handle} 1g.10gb"
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=10 * 2**30, free=2**29)
    assert gpu.describe().name == "NVIDIA H100 MIG-0-0 1g.10gb"
