"""NVIDIA GPUs, found through NVML."""

from whichdevice.devices.base import DeviceFacts
from whichdevice.host.environment import visible_list
from whichdevice.host.nvml import NvmlError, handle, open_nvml, text, visible_gpus


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
    """Name and memory of the first GPU, how many there are, and the driver with its CUDA version."""
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
        name, memory = text(nvml.nvmlDeviceGetName(first)), nvml.nvmlDeviceGetMemoryInfo(first).total
        return DeviceFacts(name, len(gpus), int(memory), driver)
    except nvml.NVMLError:
        return DeviceFacts(count=present())


def _look() -> tuple[int, str]:
    """How many GPUs, and why there are none."""
    try:
        nvml = open_nvml()
    except NvmlError as error:
        return 0, f"NVML: {error}"
    try:
        gpus = visible_gpus(nvml)
        total = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        return 0, f"NVML: {error}"
    if gpus or not total:
        return len(gpus), "NVML: counts none"
    name, entries = visible_list("CUDA_VISIBLE_DEVICES") or ("", [])
    return 0, f"{name}={','.join(entries)!r} hides all {total}"
