"""Opening NVML where it is missing, broken or hangs."""

import sys
import threading
import time
from types import ModuleType

import pytest

from whichdevice.host.nvml import NvmlError, open_nvml


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
    assert time.monotonic() - start < 2
    end.set()
