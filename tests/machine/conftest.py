"""NVML of a host with GPUs, in the place of the Python package; and files as the kernel shows them."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest


def put(path: Path, text: object) -> None:
    """Write a small file in a folder that may not be there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")


class FakeNvml(SimpleNamespace):
    """Two GPUs, H000 and H100 by name, that have drawn 5000 and 7000 mJ."""

    class NVMLError(Exception):
        """What NVML raises."""

    class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801, N818
        """Without the driver."""

    nvmlClocksEventReasonHwSlowdown, nvmlClocksEventReasonHwThermalSlowdown = 8, 64  # noqa: N815

    def __init__(self) -> None:
        self.sliced: set[int] = set()
        self.slices = 2  # of each GPU under MIG
        super().__init__(
            nvmlInit=lambda: None,
            nvmlDeviceGetCount=lambda: 2,
            nvmlDeviceGetHandleByIndex=lambda index: index,
            nvmlDeviceGetMigMode=lambda handle: [int(handle in self.sliced), 0],
            nvmlDeviceGetMaxMigDeviceCount=lambda handle: 7,
            nvmlDeviceGetMigDeviceHandleByIndex=self.slice,
            nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
            nvmlDeviceGetUUID=lambda handle: handle if isinstance(handle, str) else f"GPU-{handle}aaa",
            nvmlDeviceGetName=lambda handle: f"NVIDIA H{handle}00",
            nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=(handle + 1) * 2**30, free=2**29),
            nvmlDeviceGetTotalEnergyConsumption=lambda handle: 5000 + 2000 * handle,
            nvmlSystemGetDriverVersion=lambda: "560.35",
            nvmlSystemGetCudaDriverVersion_v2=lambda: 12060,
        )

    def slice(self, handle: int, place: int) -> str:
        """The UUID of a slice."""
        if place >= self.slices:
            raise self.NVMLError("Not Found")
        return f"MIG-{handle}-{place}"


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """NVML, which a test may change."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake
