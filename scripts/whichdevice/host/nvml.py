"""NVIDIA's management library, opened with care: it may be missing, broken or hang."""

import importlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from whichdevice.host.environment import visible_list

Answer = TypeVar("Answer")
PATIENCE = 1.5  # seconds; a healthy driver answers in milliseconds, as nothing is attached to a GPU yet
WAKING = 30.0  # seconds; without persistence mode a driver takes one or two to wake each GPU


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
    """What `ask` answers or raises; raises NvmlError where it hangs.

    A driver that lost its GPU can hang in the kernel, so a thread of its own asks and may stay behind.
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
    unlike GPUs fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID, which `cuda_variables` sets; NVML always by bus.
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
    """UUIDs of the slices of a GPU under MIG, of which a container sees its own alone; None of a whole GPU or a slice.

    NVML tells of the whole GPU, where CUDA would run on the first slice.
    """
    if isinstance(gpu, str) and gpu.startswith("MIG-"):
        return None
    try:
        whole = handle(pynvml, gpu)
        if not pynvml.nvmlDeviceGetMigMode(whole)[0]:  # now, and after the next reset
            return None
        places = range(pynvml.nvmlDeviceGetMaxMigDeviceCount(whole))
    except pynvml.NVMLError:  # a GPU or a driver without MIG
        return None
    slices = []
    for place in places:
        with suppress(pynvml.NVMLError):  # an empty place
            slices.append(text(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, place))))
    return slices


def handle(pynvml: Any, gpu: int | str) -> Any:
    """NVML's handle of one entry of `visible_gpus`; raises pynvml.NVMLError. CUDA allows shortened UUIDs."""
    if isinstance(gpu, int):
        return pynvml.nvmlDeviceGetHandleByIndex(gpu)
    if gpu.startswith("GPU-"):
        for index in range(pynvml.nvmlDeviceGetCount()):
            found = pynvml.nvmlDeviceGetHandleByIndex(index)
            if text(pynvml.nvmlDeviceGetUUID(found)).startswith(gpu):
                return found
    return pynvml.nvmlDeviceGetHandleByUUID(gpu)


def text(value: str | bytes) -> str:
    """Old versions of pynvml answer in bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
