"""Watch clocks and throttling during a run: once a second, by a thread that reads a few small files.

What a GPU does one second after the start, before the measured process has taken it, is other people's work.
"""

import contextlib
import threading
from collections.abc import Callable
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from whichdevice.machine.gpu import NvmlError, handle, open_nvml, visible_gpus
from whichdevice.records.schema import Clocks

INTERVAL = 1.0  # seconds
PROCESSORS = Path("/sys/devices/system/cpu")
# What slows a GPU down beyond its ordinary power limit, as NVML names its bits.
GPU_THROTTLING = {
    "nvmlClocksEventReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksEventReasonSwThermalSlowdown": "heat (driver)",
    "nvmlClocksEventReasonHwThermalSlowdown": "heat (hardware)",
    "nvmlClocksEventReasonHwPowerBrakeSlowdown": "power brake",
}


class GpuReading(NamedTuple):
    """What a driver says; None where it does not."""

    clock: float | None  # Hz, of the first GPU's multiprocessors
    throttling: int | None  # bits of any GPU of the run
    busy: float | None  # share of the driver's last sample in which a kernel ran, on the busiest of them


ReadGpu = Callable[[], GpuReading]


class ClockWatch:
    """Lowest and highest clocks between `start()` and `stop()`, and what throttled. It never fails."""

    def __init__(
        self, kind: str, replicas: int = 1, interval: float = INTERVAL, open_gpu: Callable[[], ReadGpu] | None = None
    ) -> None:
        self._kind, self._interval = kind, interval
        self._open_gpu = open_gpu or partial(gpu_reader, replicas)
        self._ended = threading.Event()
        self._processor: list[float] = []
        self._gpu: list[GpuReading] = []
        self._busy: float | None = None
        self._throttles = 0
        self._samples = 0

    def start(self) -> None:
        """Begin; a driver that hangs holds up its own thread alone."""
        self._throttles = processor_throttles()
        threading.Thread(target=self._watch, name="clocks", daemon=True).start()

    def stop(self) -> Clocks:
        """What was seen."""
        self._ended.set()
        clocks = [reading.clock for reading in self._gpu if reading.clock is not None]
        bits = [reading.throttling for reading in self._gpu if reading.throttling is not None]
        return Clocks(
            samples=self._samples,
            cpu_low=min(self._processor, default=None),
            cpu_high=max(self._processor, default=None),
            cpu_throttles=processor_throttles() - self._throttles,
            gpu_low=min(clocks, default=None),
            gpu_high=max(clocks, default=None),
            gpu_throttling=[n for bit, n in throttling_bits() if any(bit & seen for seen in bits)] if bits else None,
            gpu_busy_before=self._busy,
        )

    def _watch(self) -> None:
        read_gpu: ReadGpu | None = None
        if self._kind == "gpu":
            with contextlib.suppress(Exception):  # no library, no device: nothing to watch
                read_gpu = self._open_gpu()
        while not self._ended.wait(self._interval):
            self._samples += 1
            with contextlib.suppress(Exception):  # psutil fails in its own ways where nothing states a clock
                self._processor.append(psutil.cpu_freq().current * 1e6)
            if read_gpu is not None:
                with contextlib.suppress(Exception):
                    self._gpu.append(read_gpu())
                    if self._samples == 1:  # a later one is of the run itself
                        self._busy = self._gpu[0].busy


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


def gpu_reader(replicas: int = 1) -> ReadGpu:
    """Reads the first GPUs that are visible, as many as the run uses. Raises NvmlError."""
    nvml: Any = open_nvml()
    gpus = [handle(nvml, gpu) for gpu in visible_gpus(nvml)[:replicas]]
    if not gpus:
        raise NvmlError("no GPU is visible")

    def read() -> GpuReading:
        clock = bits = busy = None
        with contextlib.suppress(Exception):  # each may be unknown: to older drivers, of parts of a GPU (MIG)
            clock = nvml.nvmlDeviceGetClockInfo(gpus[0], nvml.NVML_CLOCK_SM) * 1e6
        with contextlib.suppress(Exception):
            bits = reduce(or_, (int(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)) for gpu in gpus))
        with contextlib.suppress(Exception):
            busy = max(nvml.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in gpus) / 100
        return GpuReading(clock, bits, busy)

    return read
