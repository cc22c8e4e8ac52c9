"""Which products a device has in hardware, and what a precision stands for."""

import types

import pytest
from beside import beside

from whichdevice.measure.backends import number_formats
from whichdevice.measure.backends.number_formats import compute_capability, emulated

BESIDE = beside(__file__)


def gpus(monkeypatch: pytest.MonkeyPatch, *capabilities: tuple[int, int]) -> None:
    nvml = types.SimpleNamespace(
        NVMLError=type("NVMLError", (Exception,), {}),
        nvmlDeviceGetCount=lambda: len(capabilities),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMigMode=lambda gpu: [0, 0],
        nvmlDeviceGetCudaComputeCapability=capabilities.__getitem__,
    )
    monkeypatch.setattr(number_formats, "open_nvml", lambda: nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(("sets", "product", "has"), BESIDE["a cpu has products by its instruction sets"])
def test_a_cpu_has_products_by_its_instruction_sets(monkeypatch, sets, product, has):
    monkeypatch.setattr(number_formats, "instruction_sets", lambda: sets)
    assert (emulated("cpu", product) is None) == has


@pytest.mark.parametrize(("capability", "product", "has"), BESIDE["a gpu has products by its compute capability"])
def test_a_gpu_has_products_by_its_compute_capability(monkeypatch, capability, product, has):
    gpus(monkeypatch, *[capability] if capability else [])
    reason = emulated("gpu", product)
    assert (reason is None) == has
    assert reason is None or "compute capability 7.5" in reason


def test_compute_capability_is_that_of_the_first_visible_gpu(monkeypatch):
    gpus(monkeypatch, (7, 5), (9, 0))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert compute_capability() == (9, 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert compute_capability() is None
