"""GPUs are found through NVML, which may be missing, broken or hang."""

import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import pytest

from whichdevice.measure.machine import gpu
from whichdevice.measure.machine.gpu import NvmlError, cuda_variables, open_nvml


def fake_pynvml(monkeypatch: pytest.MonkeyPatch, initialise: object) -> ModuleType:
    module = ModuleType("pynvml")
    module.NVMLError = type("NVMLError", (Exception,), {})  # type: ignore[attr-defined]
    module.NVMLError_LibraryNotFound = type("Missing", (module.NVMLError,), {})  # type: ignore[attr-defined]
    module.nvmlInit = initialise  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def test_without_the_python_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NvmlError, match="nvidia-ml-py is not installed"):
        open_nvml()


def test_without_the_driver_and_with_a_broken_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error("Driver/library version mismatch")

    module = fake_pynvml(monkeypatch, fail)
    error = module.NVMLError_LibraryNotFound
    with pytest.raises(NvmlError, match=r"^not installed$"):
        open_nvml()
    error = module.NVMLError
    with pytest.raises(NvmlError, match=r"^Driver/library version mismatch$"):
        open_nvml()


def test_a_hanging_driver_costs_no_more_than_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    fake_pynvml(monkeypatch, end.wait)
    start = time.monotonic()
    with pytest.raises(NvmlError, match=r"no answer within 0\.1 s"):
        open_nvml(patience=0.1)
    assert time.monotonic() - start < 60  # it hangs for ever
    end.set()


@pytest.mark.parametrize(
    ("visible", "replicas", "left"),
    [
        (None, 1, "0"),
        (None, 2, "0,1"),
        ("3,1,0", 2, "3,1"),
        ("GPU-1a", 1, "GPU-1a"),
        ("", 1, "-1"),  # nothing visible stays nothing visible
        ("-1", 1, "-1"),
    ],
)
def test_a_process_sees_as_many_gpus_as_it_has_replicas(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, replicas: int, left: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert cuda_variables(replicas) == {"CUDA_VISIBLE_DEVICES": left, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert cuda_variables(replicas)["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"  # as NVML numbers them, which counts energy


class FakeNvml(SimpleNamespace):
    class NVMLError(Exception):
        pass

    def __init__(self, count: int) -> None:
        self.sliced: set[int] = set()
        self.slices = 2  # of each GPU under MIG
        super().__init__(
            nvmlDeviceGetCount=lambda: count,
            nvmlDeviceGetHandleByIndex=lambda index: index,
            nvmlDeviceGetMigMode=lambda handle: [int(handle in self.sliced), 0],
            nvmlDeviceGetMaxMigDeviceCount=lambda handle: 7,
            nvmlDeviceGetMigDeviceHandleByIndex=self.slice,
            nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
            nvmlDeviceGetUUID=lambda handle: handle if isinstance(handle, str) else f"GPU-{handle}aaa",
            nvmlDeviceGetName=lambda handle: f"NVIDIA H{handle}00",
            nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=(handle + 1) * 2**30, free=2**29),
            nvmlSystemGetDriverVersion=lambda: "560.35",
            nvmlSystemGetCudaDriverVersion_v2=lambda: 12060,
        )

    def slice(self, handle: int, place: int) -> str:
        if place >= self.slices:
            raise self.NVMLError("Not Found")
        return f"MIG-{handle}-{place}"


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    fake = FakeNvml(2)
    monkeypatch.setattr(gpu, "open_nvml", lambda: fake)
    return fake


@pytest.mark.parametrize(
    ("visible", "count", "name"),
    [
        ("1", 1, "NVIDIA H100"),
        ("1,0", 2, "NVIDIA H100"),
        ("GPU-1a", 1, "NVIDIA H100"),  # shortened, as CUDA allows
        ("0,7,1", 1, "NVIDIA H000"),  # CUDA stops at the first that is wrong
        ("MIG-a,MIG-b", 1, "a slice"),  # CUDA gives a process one slice,
        ("MIG-a,1", 1, "a slice"),
        ("1,MIG-a", 1, "NVIDIA H100"),  # and none beside a whole GPU
        ("", 0, None),
        ("-1", 0, None),
    ],
)
def test_cuda_visible_devices_is_heeded(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, visible: str, count: int, name: str | None
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=2**30, free=2**29)
    nvml.nvmlDeviceGetName = lambda handle: "a slice" if handle == "MIG-a" else f"NVIDIA H{handle}00"
    assert gpu.present() == count
    assert gpu.describe().name == name


def test_hidden_gpus_are_said_to_be_hidden(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpu.absent_reason() == "no GPU found on this host (CUDA_VISIBLE_DEVICES='-1' hides all 2)"


def test_without_nvml_there_is_no_gpu_and_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NvmlError("not installed")

    monkeypatch.setattr(gpu, "open_nvml", missing)
    assert gpu.present() == 0
    assert gpu.absent_reason() == "no GPU found on this host (NVML: not installed)"
    assert gpu.describe() == gpu.DeviceFacts()


def test_a_gpu_under_mig_is_no_device_until_a_slice_is_named(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_only_slice_that_a_container_sees_is_the_device(nvml: FakeNvml) -> None:
    nvml.sliced, nvml.slices = {0}, 1
    nvml.nvmlDeviceGetName = lambda handle: f"NVIDIA H100 {handle} 1g.10gb"
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=10 * 2**30, free=2**29)
    assert gpu.describe().name == "NVIDIA H100 MIG-0-0 1g.10gb"
