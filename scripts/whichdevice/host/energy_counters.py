"""The energy counters that a host may have, for each kind of device. A missing one is a reason, never an estimate."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whichdevice.host.nvml import NvmlError, answer_within, handle, open_nvml, visible_gpus

NVML_UPDATE = 0.1  # s; drivers renew the counter every 20 to 100 ms
PATIENCE = 3.0  # s; below the time that a process's last messages are waited for


class MeterError(Exception):
    """A counter could not be read; the text says why."""


@dataclass(frozen=True)
class Counters:
    """Running counters in joules; `ranges` says where each starts again from 0 (infinity: never)."""

    name: str
    read: Callable[[], list[float]]
    ranges: list[float]
    update: float  # s between two new values of a counter


def nvml_counters(replicas: int = 1) -> Counters:
    """The own counters of the first visible GPUs (Volta and later), memory included. Raises MeterError."""
    try:
        nvml = open_nvml()
    except NvmlError as error:
        raise MeterError(f"NVML: {error}") from error

    def told(ask: Callable[[], list[Any]]) -> list[Any]:
        try:
            return answer_within(PATIENCE, ask)
        except (nvml.NVMLError, NvmlError) as error:
            raise MeterError(f"NVML: {error}") from error

    handles = told(lambda: [handle(nvml, gpu) for gpu in visible_gpus(nvml)[:replicas]])
    if not handles:
        raise MeterError("no GPU is visible")

    def read() -> list[float]:
        return told(lambda: [nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000 for gpu in handles])  # from mJ

    read()
    return Counters(f"NVML of {many(len(handles), 'GPU')}", read, [math.inf] * len(handles), NVML_UPDATE)


def no_tpu_counters() -> Counters:
    """Raises MeterError."""
    raise MeterError("a TPU has no energy counter that a program can read")


def many(count: int, thing: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{count} {thing}{'s' * (count > 1)}"
