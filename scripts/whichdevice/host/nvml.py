"""NVIDIA's management library, opened with care: it may be missing, broken or hang."""

import importlib
import os
import threading
from typing import Any

from whichdevice.host.environment import visible_list

PATIENCE = 1.5  # seconds; a healthy driver answers in milliseconds, as nothing is attached to a GPU yet


class NvmlError(Exception):
    """NVML cannot be used; the text says why, in a few words."""


def open_nvml(patience: float = PATIENCE) -> Any:
    """The initialised `pynvml` module; raises NvmlError.

    A driver that lost its GPU can hang in the kernel, so a thread of its own opens it and may stay behind.
    """
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError:
        raise NvmlError("nvidia-ml-py is not installed") from None
    outcome: list[str | None] = []

    def initialise() -> None:
        try:
            pynvml.nvmlInit()
            outcome.append(None)
        except pynvml.NVMLError_LibraryNotFound:
            outcome.append("not installed")
        except (pynvml.NVMLError, OSError) as error:
            outcome.append(str(error))

    thread = threading.Thread(target=initialise, name="nvml", daemon=True)
    thread.start()
    thread.join(patience)
    if not outcome:
        raise NvmlError(f"no answer within {patience:g} s; see nvidia-smi")
    if outcome[0] is not None:
        raise NvmlError(outcome[0])
    return pynvml


def cuda_variables(replicas: int) -> dict[str, str]:
    """Environment in which a process sees the first so many of the GPUs visible here, numbered as NVML numbers them."""
    listed = visible_list("CUDA_VISIBLE_DEVICES")
    entries = [str(index) for index in range(replicas)] if listed is None else listed[1][:replicas]
    order = os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return {"CUDA_VISIBLE_DEVICES": ",".join(entries) or "-1", "CUDA_DEVICE_ORDER": order}


def visible_gpus(pynvml: Any) -> list[int | str]:
    """GPUs that this process may use, as NVML indices or UUIDs, in the order of CUDA_VISIBLE_DEVICES.

    As CUDA does, the list ends at the first entry that names no GPU. CUDA numbers unlike GPUs fastest first
    unless CUDA_DEVICE_ORDER=PCI_BUS_ID, which `cuda_variables` sets; NVML always by bus.
    """
    count = pynvml.nvmlDeviceGetCount()
    listed = visible_list("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return list(range(count))
    gpus: list[int | str] = []
    for entry in listed[1]:
        if entry.isdigit() and int(entry) < count:
            gpus.append(int(entry))
        elif count and entry.startswith(("GPU-", "MIG-")):
            gpus.append(entry)
        else:
            break
    return gpus


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
