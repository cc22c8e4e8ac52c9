"""Find NVIDIA GPUs through NVML, NVIDIA's management library, which may be missing, broken or hang."""

import importlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from whichdevice.measure.machine.devices import DeviceFacts, visible_list

Answer = TypeVar("Answer")
PATIENCE = 1.5  # seconds; a healthy driver answers in milliseconds, as nothing is attached to a GPU yet
WAKING = 30.0  # seconds; without persistence mode a driver takes one or two to wake each GPU
MIG = "MIG is on: name a slice of `nvidia-smi -L` in CUDA_VISIBLE_DEVICES"


class NvmlError(Exception):
    """NVML cannot be used; the text says why, in a few words."""


def open_nvml(patience: float = PATIENCE) -> Any:
    """The initialised `pynvml` module; raises NvmlError."""
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError:
        raise NvmlError("nvidia-ml-py is not installed") from None
    try:
        answer_within(patience, pynvml.nvmlInit)
    except pynvml.NVMLError_LibraryNotFound:
        raise NvmlError("not installed") from None
    except (pynvml.NVMLError, OSError) as error:
        raise NvmlError(str(error)) from error
    return pynvml


def answer_within(patience: float, ask: Callable[[], Answer]) -> Answer:
    """Return what `ask` answers, or raise what it raises; raises NvmlError where it hangs.

    A driver that lost its GPU can hang in the kernel, so a separate thread asks and may stay behind.
    """
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=work, name="nvml", daemon=True).start()
    try:
        return answer.result(patience)
    except TimeoutError:
        raise NvmlError(f"no answer within {patience:g} s; see nvidia-smi") from None


def cuda_variables(replicas: int) -> dict[str, str]:
    """Environment in which a process sees the first so many of the GPUs visible here, numbered as NVML numbers them."""
    listed = visible_list("CUDA_VISIBLE_DEVICES")
    entries = [str(index) for index in range(replicas)] if listed is None else listed[1][:replicas]
    return {"CUDA_VISIBLE_DEVICES": ",".join(entries) or "-1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def visible_gpus(pynvml: Any) -> list[int | str]:
    """GPUs that this process may use: `listed_gpus` up to the first one under MIG, or its only slice.

    CUDA gives a process one slice, and none beside a whole GPU.
    """
    gpus: list[int | str] = []
    for gpu in listed_gpus(pynvml):
        slices = _slices(pynvml, gpu)
        if slices is not None:
            return [*slices] if not gpus and len(slices) == 1 else gpus
        gpus.append(gpu)
    return gpus


def listed_gpus(pynvml: Any) -> list[int | str]:
    """GPUs that CUDA_VISIBLE_DEVICES leaves, as NVML indices or UUIDs, in its order.

    As CUDA does, the list ends at the first entry that names no GPU, and holds one slice of a GPU at most. CUDA numbers
    different GPUs fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID, which `cuda_variables` sets; NVML always by bus.
    """
    count = pynvml.nvmlDeviceGetCount()
    listed = visible_list("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return list(range(count))
    gpus: list[int | str] = []
    for entry in listed[1]:
        if entry.isdigit() and int(entry) < count:
            gpus.append(int(entry))
        elif count and entry.startswith("GPU-"):
            gpus.append(entry)
        elif count and entry.startswith("MIG-") and not gpus:
            return [entry]
        else:
            break
    return gpus


def _slices(pynvml: Any, gpu: int | str) -> list[str] | None:
    """Return the UUIDs of a GPU's slices under MIG (a container sees only its own); None for a whole GPU or a slice.

    NVML reports the whole GPU, where CUDA would run on the first slice.
    """
    if isinstance(gpu, str) and gpu.startswith("MIG-"):
        return None
    try:
        card = handle(pynvml, gpu)
        if not pynvml.nvmlDeviceGetMigMode(card)[0]:  # now, and after the next reset
            return None
        places = range(pynvml.nvmlDeviceGetMaxMigDeviceCount(card))
    except pynvml.NVMLError:  # a GPU or a driver without MIG
        return None
    slices = []
    for place in places:
        with suppress(pynvml.NVMLError):  # an empty place
            slices.append(text(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, place))))
    return slices


def handle(pynvml: Any, gpu: int | str) -> Any:
    """NVML's handle of one entry of `visible_gpus`; raises pynvml.NVMLError. CUDA allows shortened UUIDs."""
    if isinstance(gpu, int):
        return pynvml.nvmlDeviceGetHandleByIndex(gpu)
    if gpu.startswith("GPU-"):
        for index in range(pynvml.nvmlDeviceGetCount()):
            gpu_handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            if text(pynvml.nvmlDeviceGetUUID(gpu_handle)).startswith(gpu):
                return gpu_handle
    return pynvml.nvmlDeviceGetHandleByUUID(gpu)


def text(value: str | bytes) -> str:
    """Old versions of pynvml answer in bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


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
    """Name and memory of the first GPU, how many there are, and the driver with its CUDA."""
    try:
        return _ask(_facts)
    except NvmlError:
        return DeviceFacts(count=present())


def _ask(ask: Callable[[Any], Answer]) -> Answer:
    """Return what NVML answers; raises NvmlError where it is missing, fails or hangs."""
    nvml = open_nvml()
    try:
        return answer_within(WAKING, lambda: ask(nvml))
    except nvml.NVMLError as error:
        raise NvmlError(str(error)) from error


def _facts(nvml: Any) -> DeviceFacts:
    gpus = visible_gpus(nvml)
    version = text(nvml.nvmlSystemGetDriverVersion())
    cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
    driver = f"NVIDIA {version} (CUDA {cuda // 1000}.{cuda % 1000 // 10})"
    if not gpus:
        return DeviceFacts(driver=driver)
    first = handle(nvml, gpus[0])
    name, memory = text(nvml.nvmlDeviceGetName(first)), nvml.nvmlDeviceGetMemoryInfo(first)
    return DeviceFacts(name, len(gpus), int(memory.total), driver, free_memory=int(memory.free))


def _look() -> tuple[int, str]:
    """How many GPUs, and why there are none."""
    try:
        return _ask(_count)
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
