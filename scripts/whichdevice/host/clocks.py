"""Clocks and throttling watched during a run: once a second, by a thread that reads a few small files."""

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from whichdevice.host.nvml import NvmlError, handle, open_nvml, visible_gpus
from whichdevice.records.conditions import Clocks

INTERVAL = 1.0  # seconds
PROCESSORS = Path("/sys/devices/system/cpu")
# What slows a GPU down beyond its ordinary power limit, as NVML names its bits.
GPU_THROTTLING = {
    "nvmlClocksEventReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksEventReasonSwThermalSlowdown": "heat (driver)",
    "nvmlClocksEventReasonHwThermalSlowdown": "heat (hardware)",
    "nvmlClocksEventReasonHwPowerBrakeSlowdown": "power brake",
}
ReadClock = Callable[[], tuple[float, int | None]]  # Hz, and bits of throttling, None where the driver does not say


class ClockWatch:
    """Lowest and highest clocks between `start()` and `stop()`, and what throttled. It never fails."""

    def __init__(
        self, kind: str, replicas: int = 1, interval: float = INTERVAL, open_gpu: Callable[[], ReadClock] | None = None
    ) -> None:
        self._kind, self._interval = kind, interval
        self._open_gpu = open_gpu or partial(gpu_clock, replicas)
        self._ended = threading.Event()
        self._processor: list[float] = []
        self._gpu: list[float] = []
        self._bits: int | None = None
        self._throttles = 0
        self._samples = 0

    def start(self) -> None:
        """Begin; a driver that hangs holds up its own thread alone."""
        self._throttles = processor_throttles()
        threading.Thread(target=self._watch, name="clocks", daemon=True).start()

    def stop(self) -> Clocks:
        """What was seen."""
        self._ended.set()
        return Clocks(
            samples=self._samples,
            cpu_low=min(self._processor, default=None),
            cpu_high=max(self._processor, default=None),
            cpu_throttles=processor_throttles() - self._throttles,
            gpu_low=min(self._gpu, default=None),
            gpu_high=max(self._gpu, default=None),
            gpu_throttling=None if self._bits is None else [n for bit, n in throttling_bits() if self._bits & bit],
        )

    def _watch(self) -> None:
        read_gpu: ReadClock | None = None
        if self._kind == "gpu":
            with contextlib.suppress(Exception):  # no library, no device: nothing to watch
                read_gpu = self._open_gpu()
        while not self._ended.wait(self._interval):
            self._samples += 1
            with contextlib.suppress(Exception):  # psutil fails in its own ways where nothing states a clock
                self._processor.append(psutil.cpu_freq().current * 1e6)
            if read_gpu is not None:
                with contextlib.suppress(Exception):
                    clock, bits = read_gpu()
                    self._gpu.append(clock)
                    self._bits = self._bits if bits is None else (self._bits or 0) | bits


def processor_throttles(folder: Path = PROCESSORS) -> int:
    """How often the processors throttled for heat since boot; 0 where nothing counts it (virtual machines)."""
    count = 0
    for file in folder.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"):
        with contextlib.suppress(OSError, ValueError):
            count += int(file.read_text(encoding="ascii"))
    return count


def throttling_bits() -> list[tuple[int, str]]:
    """NVML's bits of `GPU_THROTTLING`; none without the library."""
    try:
        import pynvml
    except ImportError:
        return []
    return [(int(getattr(pynvml, name, 0)), text) for name, text in GPU_THROTTLING.items()]


def gpu_clock(replicas: int = 1) -> ReadClock:
    """Reads the first visible GPU's clock of multiprocessors, and what throttles any of the run's. Raises NvmlError."""
    nvml: Any = open_nvml()
    gpus = [handle(nvml, gpu) for gpu in visible_gpus(nvml)[:replicas]]
    if not gpus:
        raise NvmlError("no GPU is visible")

    def read() -> tuple[float, int | None]:
        clock = nvml.nvmlDeviceGetClockInfo(gpus[0], nvml.NVML_CLOCK_SM) * 1e6
        bits = 0
        for gpu in gpus:
            try:
                bits |= int(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
            except Exception:  # a driver without this call still tells its clock
                return clock, None
        return clock, bits

    return read
