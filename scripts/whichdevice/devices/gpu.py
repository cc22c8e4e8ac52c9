"""NVIDIA GPUs, found through NVML."""

from collections.abc import Callable
from typing import Any

from whichdevice.devices.base import DeviceFacts
from whichdevice.host.environment import visible_list
from whichdevice.host.nvml import (
    WAKING,
    Answer,
    NvmlError,
    answer_within,
    handle,
    listed_gpus,
    open_nvml,
    text,
    visible_gpus,
)

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
        return _asked(_facts)
    except NvmlError:
        return DeviceFacts(count=present())


def clock_now() -> float | None:
    """Hz of the first GPU's multiprocessors at this moment; None where NVML does not tell. It never raises."""
    try:
        return _asked(_clock)
    except (NvmlError, IndexError):  # not supported by this GPU, lost, or none visible
        return None


def _asked(ask: Callable[[Any], Answer]) -> Answer:
    """What NVML answers; raises NvmlError where it is missing, fails or hangs: supervisors and Snakemake ask it."""
    nvml = open_nvml()
    try:
        return answer_within(WAKING, lambda: ask(nvml))
    except nvml.NVMLError as error:
        raise NvmlError(str(error)) from error


def _clock(nvml: Any) -> float:
    return int(nvml.nvmlDeviceGetClockInfo(handle(nvml, visible_gpus(nvml)[0]), nvml.NVML_CLOCK_SM)) * MEGAHERTZ


def _facts(nvml: Any) -> DeviceFacts:
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


def _told(nvml: Any, ask: Callable[[], int]) -> int | None:
    try:
        return int(ask())
    except nvml.NVMLError:  # not supported by this GPU
        return None


def _look() -> tuple[int, str]:
    """How many GPUs, and why there are none."""
    try:
        return _asked(_count)
    except NvmlError as error:
        return 0, f"NVML: {error}"


def _count(nvml: Any) -> tuple[int, str]:
    gpus, listed = visible_gpus(nvml), listed_gpus(nvml)
    total = nvml.nvmlDeviceGetCount()
    if gpus or not total:
        return len(gpus), "NVML: counts none"
    if listed:
        return 0, MIG
    name, entries = visible_list("CUDA_VISIBLE_DEVICES") or ("", [])
    return 0, f"{name}={','.join(entries)!r} hides all {total}"
