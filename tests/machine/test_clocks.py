"""Clocks and throttling are sampled during a run."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from whichdevice.machine import clocks
from whichdevice.machine.clocks import ClockWatch, processor_throttles
from whichdevice.records.schema import Clocks


def watched(watch: ClockWatch, samples: int = 2) -> Clocks:
    watch.start()
    deadline = time.monotonic() + 20
    while watch._samples < samples:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return watch.stop()


reading = clocks.GpuReading


def test_lowest_and_highest_clocks_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([3000.0, 2000.0, *[2500.0] * 1000])
    monkeypatch.setattr(clocks.psutil, "cpu_freq", lambda: SimpleNamespace(current=next(found)))
    seen = watched(ClockWatch("cpu", interval=0.01), samples=4)
    assert (seen.cpu_low, seen.cpu_high) == (2e9, 3e9)
    assert (seen.gpu_low, seen.gpu_throttling) == (None, None)


def test_a_machine_that_states_no_clock_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks.psutil, "cpu_freq", lambda: None)
    assert watched(ClockWatch("cpu", interval=0.01)).cpu_low is None


def test_a_gpu_tells_its_clock_and_why_it_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "throttling_bits", lambda: [(8, "hardware slowdown"), (64, "heat (hardware)")])
    read = iter([reading(1.9e9, 0, 0.5), reading(1.2e9, 64 | 4, 0.9), *[reading(1.5e9, 0, 1.0)] * 1000])
    seen = watched(ClockWatch("gpu", interval=0.01, open_gpu=lambda: lambda: next(read)), samples=4)
    assert (seen.gpu_low, seen.gpu_high) == (1.2e9, 1.9e9)
    assert seen.gpu_throttling == ["heat (hardware)"]
    assert seen.gpu_busy_before == 0.5  # of the first reading: later ones are the run's own work


def test_every_gpu_of_the_run_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons, busy = {0: 4, 1: 64, 2: 8}, {0: 0, 1: 30, 2: 99}
    nvml = SimpleNamespace(
        NVML_CLOCK_SM=1,
        nvmlDeviceGetClockInfo=lambda gpu, _: 1500 + gpu,
        nvmlDeviceGetCurrentClocksEventReasons=lambda gpu: reasons[gpu],
        nvmlDeviceGetUtilizationRates=lambda gpu: SimpleNamespace(gpu=busy[gpu]),
    )
    monkeypatch.setattr(clocks, "open_nvml", lambda: nvml)
    monkeypatch.setattr(clocks, "visible_gpus", lambda _: [0, 1, 2])
    monkeypatch.setattr(clocks, "handle", lambda _, gpu: gpu)
    assert clocks.gpu_reader(replicas=2)() == reading(1.5e9, 64 | 4, 0.3)
    del nvml.nvmlDeviceGetCurrentClocksEventReasons, nvml.nvmlDeviceGetUtilizationRates  # a driver without them
    assert clocks.gpu_reader(replicas=2)() == reading(1.5e9, None, None)


def test_what_a_driver_does_not_say_is_not_no_throttling() -> None:
    seen = watched(ClockWatch("gpu", interval=0.01, open_gpu=lambda: lambda: reading(1.5e9, None, None)))
    assert (seen.gpu_low, seen.gpu_throttling, seen.gpu_busy_before) == (1.5e9, None, None)


def test_how_busy_a_gpu_was_before_is_told_by_the_first_second_alone() -> None:
    def late() -> Iterator[clocks.GpuReading]:
        yield reading(None, None, None)
        while True:
            yield reading(1.5e9, 0, 1.0)  # the run itself

    readings = late()
    seen = watched(ClockWatch("gpu", interval=0.01, open_gpu=lambda: lambda: next(readings)), samples=3)
    assert (seen.gpu_busy_before, seen.gpu_low) == (None, 1.5e9)


def test_a_gpu_whose_library_fails_is_not_watched() -> None:
    def broken() -> clocks.ReadGpu:
        raise OSError("no library")

    assert watched(ClockWatch("gpu", interval=0.01, open_gpu=broken)).gpu_low is None


def test_throttles_of_all_processors_add_up(tmp_path: Path) -> None:
    for number, count in enumerate(["3", "4", "?"]):
        folder = tmp_path / f"cpu{number}" / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text(count)
    assert processor_throttles(tmp_path) == 7
    assert processor_throttles(tmp_path / "nothing") == 0
