"""NVIDIA GPUs, found through NVML."""

from collections.abc import Callable
from typing import Any

from whichdevice.devices.base import DeviceFacts
from whichdevice.host.environment import visible_list
from whichdevice.host.nvml import NvmlError, handle, listed_gpus, open_nvml, text, visible_gpus

MEGAHERTZ = 1e6
MIG = "MIG is on: name a slice of `nvidia-smi -L` in CUDA_VISIBLE_DEVICES"


def present() -> int:
    """GPUs that this process may use; 0 when NVML is missing or fails."""
    return _look()[0]


def absent_reason(replicas: int = 1) -> str | None:
    """None if there are enough GPUs, otherwise why not."""
    count, reason = _look()
    if count >= replicas:
        return None
    if count == 0:
        return f"no GPU found on this host ({reason})"
    return f"{count} GPU{'s' * (count > 1)} found on this host, {replicas} replicas asked"


def describe() -> DeviceFacts:
    """Name, memory, power limit and highest clock of the first GPU, how many there are, and the driver with its CUDA.

    Power and clock are None where the GPU or the driver does not tell them.
    """
    try:
        nvml = open_nvml()
    except NvmlError:
        return DeviceFacts()
    try:
        gpus = visible_gpus(nvml)
        version = text(nvml.nvmlSystemGetDriverVersion())
        cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
        driver = f"NVIDIA {version} (CUDA {cuda // 1000}.{cuda % 1000 // 10})"
        if not gpus:
            return DeviceFacts(driver=driver)
        first = handle(nvml, gpus[0])
        name, memory = text(nvml.nvmlDeviceGetName(first)), nvml.nvmlDeviceGetMemoryInfo(first)
        milliwatts = _told(nvml, lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(first))
        clock = _told(nvml, lambda: nvml.nvmlDeviceGetMaxClockInfo(first, nvml.NVML_CLOCK_SM))
        return DeviceFacts(
            name=name,
            count=len(gpus),
            memory=int(memory.total),
            driver=driver,
            free_memory=int(memory.free),
            power_limit=None if milliwatts is None else milliwatts / 1000,
            clock_max=None if clock is None else clock * MEGAHERTZ,
        )
    except nvml.NVMLError:
        return DeviceFacts(count=present())


def clock_now() -> float | None:
    """Hz of the first GPU's multiprocessors at this moment; None where NVML does not tell. It never raises."""
    try:
        nvml = open_nvml()
    except NvmlError:
        return None
    clock = _told(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle(nvml, visible_gpus(nvml)[0]), nvml.NVML_CLOCK_SM))
    return None if clock is None else clock * MEGAHERTZ


def _told(nvml: Any, ask: Callable[[], int]) -> int | None:
    try:
        return int(ask())
    except (nvml.NVMLError, IndexError):  # not supported by this GPU, lost, or none visible
        return None


def _look() -> tuple[int, str]:
    """How many GPUs, and why there are none."""
    try:
        nvml = open_nvml()
    except NvmlError as error:
        return 0, f"NVML: {error}"
    try:
        gpus, listed = visible_gpus(nvml), listed_gpus(nvml)
        total = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        return 0, f"NVML: {error}"
    if gpus or not total:
        return len(gpus), "NVML: counts none"
    if listed:
        return 0, MIG
    name, entries = visible_list("CUDA_VISIBLE_DEVICES") or ("", [])
    return 0, f"{name}={','.join(entries)!r} hides all {total}"
