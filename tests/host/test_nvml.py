"""Opening NVML where it is missing, broken or hangs."""

import sys
import threading
import time
from types import ModuleType

import pytest

from whichdevice.host.nvml import NvmlError, cuda_variables, open_nvml


def fake_pynvml(monkeypatch: pytest.MonkeyPatch, initialise: object) -> ModuleType:
    module = ModuleType("pynvml")
    module.NVMLError = type("NVMLError", (Exception,), {})  # type: ignore[attr-defined]
    module.NVMLError_LibraryNotFound = type("Missing", (module.NVMLError,), {})  # type: ignore[attr-defined]
    module.nvmlInit = initialise  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def test_a_healthy_library_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    module = fake_pynvml(monkeypatch, lambda: None)
    assert open_nvml() is module


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
