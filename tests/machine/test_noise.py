"""Noise is found by the calibration, by the processors' time and by what the devices say."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whichdevice.measure.machine import noise
from whichdevice.measure.machine.calibration import KERNEL, Calibration
from whichdevice.measure.machine.noise import (
    DeviceSigns,
    DeviceWatch,
    NoiseWatch,
    ProcessorTime,
    others_share,
    processor_throttles,
    processor_time,
)
from whichdevice.measure.record import Noise

reading = noise.GpuReading


def test_a_gpu_tells_why_it_throttled(nvml) -> None:
    read = iter([reading(0, 0.5), reading(64 | 4, 0.9), *[reading(None, 1.0)] * 1000])
    watch = DeviceWatch("gpu", interval=0.01, open_gpu=lambda: lambda: next(read))
    watch.start()
    deadline = time.monotonic() + 20
    while len(watch.readings) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    seen = watch.stop()
    assert seen.gpu_throttling == ["heat (hardware)"]
    assert seen.gpu_busy_before == 0.5  # of the first reading: later ones are the run's own work


def test_every_gpu_of_the_run_is_read(nvml) -> None:
    reasons, busy = {0: 4, 1: 64, 2: 8}, {0: 0, 1: 30, 2: 99}
    nvml.nvmlDeviceGetCount = lambda: 3
    nvml.nvmlDeviceGetCurrentClocksEventReasons = lambda gpu: reasons[gpu]
    nvml.nvmlDeviceGetUtilizationRates = lambda gpu: SimpleNamespace(gpu=busy[gpu])
    assert noise.gpu_reader(replicas=2)() == reading(64 | 4, 0.3)
    del nvml.nvmlDeviceGetCurrentClocksEventReasons, nvml.nvmlDeviceGetUtilizationRates  # a driver without them
    assert noise.gpu_reader(replicas=2)() == reading(None, None)


def test_throttles_of_all_processors_add_up(tmp_path: Path) -> None:
    for number, count in enumerate(["3", "4", "?"]):
        folder = tmp_path / f"cpu{number}" / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text(count)
    assert processor_throttles(tmp_path) == 7
    assert processor_throttles(tmp_path / "nothing") == 0


def at(
    wall: float,
    busy: float = 0.0,
    own: float = 0.0,
    steal: float | None = 0.0,
    cores: int = 4,
    throttled: float | None = 0.0,
) -> ProcessorTime:
    return ProcessorTime(wall, wall * cores, busy, own, steal, throttled)


class Signs:
    def __init__(self, **seen: Any) -> None:
        self._seen = DeviceSigns(**seen)

    def start(self) -> None:
        pass

    def stop(self) -> DeviceSigns:
        return self._seen


def bursts(seconds: float) -> Calibration:
    return Calibration([seconds] * 4)


def watched_noise(
    before: Calibration,
    after: Calibration,
    *snapshots: ProcessorTime,
    cores: int = 4,
    kind: str = "cpu",
    devices: Any = None,
) -> Noise:
    """A run of ten seconds; between the first and the last snapshot lie those of its timed windows."""
    found, moments = iter([before, after]), iter([at(0.0), *snapshots])
    watch = NoiseWatch(cores, kind, lambda answered: next(found), lambda: next(moments), devices or Signs())
    watch.start()
    for _ in snapshots[:-1]:
        watch.mark()
    return watch.stop()


QUIET = at(10.0, busy=40.0, own=39.7, steal=0.1)


def test_a_quiet_run_is_not_disturbed_and_keeps_its_numbers() -> None:
    noise = watched_noise(bursts(1.0), bursts(1.05), QUIET)
    assert (noise.disturbed, noise.reasons) == (False, [])
    assert (noise.calibration_before, noise.calibration_after, noise.steal) == (1.0, 1.05, 0.1 / 40)
    assert noise.calibration_kernel == KERNEL
    assert noise.calibration_change == pytest.approx(1.05)
    assert noise.load_before is not None
    assert noise.severity == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [(bursts(1.0), bursts(1.25), "25% slower after"), (bursts(1.25), bursts(1.0), "25% slower before")],
)
def test_a_changed_speed_is_a_reason_either_way(before: Calibration, after: Calibration, reason: str) -> None:
    noise = watched_noise(before, after, QUIET)
    assert noise.disturbed and noise.reasons == [f"calibration ran {reason} the run (bound 10%)"]
    assert noise.severity == pytest.approx(2.5)


def test_stolen_time_is_a_reason() -> None:
    noise = watched_noise(bursts(1.0), bursts(1.0), at(10.0, steal=2.0))
    assert noise.reasons == ["the hypervisor took 5.0% of processor time of the run (bound 2%)"]


def test_time_that_a_quota_held_up_is_a_reason() -> None:
    assert watched_noise(bursts(1.0), bursts(1.0), at(10.0, throttled=0.4)).reasons == []
    noise = watched_noise(bursts(1.0), bursts(1.0), at(10.0, throttled=2.0))
    assert noise.reasons == ["a limit of processor time held its processes up for 5.0% of the run (bound 2%)"]
    assert noise.throttled == pytest.approx(0.05)


def test_company_is_a_reason_and_ones_own_work_is_not() -> None:
    assert watched_noise(bursts(1.0), bursts(1.0), at(10.0, busy=40.0, own=40.0)).reasons == []
    reasons = watched_noise(bursts(1.0), bursts(1.0), at(10.0, busy=40.0, own=20.0)).reasons
    assert reasons == ["other processes took 50% of the processors of the run (bound 6.2%)"]


def test_company_during_the_timed_windows_alone_is_a_reason() -> None:
    begin, end = at(8.0, busy=30.0, own=30.0), at(9.0, busy=34.0, own=33.0)
    noise = watched_noise(bursts(1.0), bursts(1.0), begin, end, at(10.0, busy=38.0, own=37.0))
    assert noise.reasons == ["other processes took 25% of the processors of the timed windows (bound 6.2%)"]
    assert (noise.others, noise.others_timed) == (pytest.approx(0.025), pytest.approx(0.25))


@pytest.mark.parametrize(("kind", "disturbed"), [("cpu", True), ("gpu", False)])
def test_half_a_core_of_sixteen_holds_up_work_in_step_and_not_a_gpu(kind: str, disturbed: bool) -> None:
    end = at(10.0, busy=160.0, own=155.0, cores=16)
    assert watched_noise(bursts(1.0), bursts(1.0), end, cores=16, kind=kind).disturbed is disturbed


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({"cpu_throttles": 3}, "the processor throttled for heat (3 times)"),
        ({"gpu_busy_before": 0.4}, "the GPU was 40% busy before the run (bound 10%)"),
        ({"gpu_throttling": ["power brake"]}, "the GPU throttled: power brake"),
    ],
)
def test_what_the_device_did_is_a_reason(seen: dict, reason: str) -> None:
    assert watched_noise(bursts(1.0), bursts(1.0), QUIET, devices=Signs(**seen)).reasons == [reason]


def test_company_on_processors_that_we_do_not_use_is_none() -> None:
    sixteen = at(10.0, busy=120.0, own=0.0, cores=16)
    assert others_share(at(0.0, cores=16), sixteen, cores=4) == 0.0
    full = at(10.0, busy=150.0, own=0.0, cores=16)
    assert others_share(at(0.0, cores=16), full, cores=4) == pytest.approx(0.75)


def test_a_child_that_still_runs_is_ones_own() -> None:
    before = processor_time()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            deadline = time.monotonic() + 30
            while processor_time().own - before.own < 0.2:
                assert time.monotonic() < deadline, "the child's time is not counted"
                time.sleep(0.05)
        finally:
            child.kill()
