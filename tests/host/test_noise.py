"""What counts as a disturbed run."""

import pytest

from whichdevice.host.noise import NoiseWatch, ProcessorTime, calibration, others_share, processor_time, steal_share
from whichdevice.records.schema import Noise


def at(wall: float, busy: float = 0.0, own: float = 0.0, steal: float | None = 0.0, cores: int = 4) -> ProcessorTime:
    return ProcessorTime(wall=wall, total=wall * cores, busy=busy, own=own, steal=steal)


def watched(before: float, after: float, end: ProcessorTime, cores: int = 4) -> Noise:
    times, snapshots = iter([before, after]), iter([at(0.0), end])
    watch = NoiseWatch(calibrate=lambda: next(times), snapshot=lambda: next(snapshots), cores=cores)
    watch.start()
    return watch.stop()


def test_a_quiet_run_is_not_disturbed_and_keeps_its_numbers() -> None:
    noise = watched(1.0, 1.05, at(10.0, busy=40.0, own=39.0, steal=0.1))
    assert (noise.disturbed, noise.reasons) == (False, [])
    assert (noise.calibration_before, noise.calibration_after, noise.steal) == (1.0, 1.05, 0.1 / 40)
    assert noise.load_before is not None


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [(1.0, 1.25, "25% slower after"), (1.25, 1.0, "25% slower before")],
)
def test_a_changed_speed_is_a_reason_either_way(before: float, after: float, reason: str) -> None:
    noise = watched(before, after, at(10.0))
    assert noise.disturbed and len(noise.reasons) == 1
    assert reason in noise.reasons[0] and "(bound 10%)" in noise.reasons[0]


def test_stolen_time_is_a_reason() -> None:
    noise = watched(1.0, 1.0, at(10.0, steal=2.0))
    assert noise.reasons == ["the hypervisor took 5.0% of processor time (bound 2%)"]


def test_company_is_a_reason_and_ones_own_work_is_not() -> None:
    assert watched(1.0, 1.0, at(10.0, busy=40.0, own=40.0)).reasons == []
    assert watched(1.0, 1.0, at(10.0, busy=40.0, own=20.0)).reasons == [
        "other processes took 50% of the processors (bound 10%)"
    ]


def test_company_on_processors_that_we_do_not_use_is_none() -> None:
    sixteen = at(10.0, busy=120.0, own=0.0, cores=16)
    assert others_share(at(0.0, cores=16), sixteen, cores=4) == 0.0
    full = at(10.0, busy=150.0, own=0.0, cores=16)
    assert others_share(at(0.0, cores=16), full, cores=4) == pytest.approx(0.75)


def test_a_system_that_states_no_steal_has_none() -> None:
    assert steal_share(at(0.0, steal=None), at(10.0, steal=None)) is None
    assert watched(1.0, 1.0, at(10.0, steal=None)).steal is None


def test_stop_before_start_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="before start"):
        NoiseWatch(calibrate=lambda: 1.0).stop()


def test_snapshots_of_this_host_grow() -> None:
    before = processor_time()
    sum(range(2_000_000))
    after = processor_time()
    assert after.wall > before.wall and after.own > before.own and after.total >= before.total


def test_the_calibration_times_a_real_product() -> None:
    """0.27 GFLOP take between 10 microseconds (27 TFLOP/s) and a second (0.27 GFLOP/s) on any host."""
    assert 1e-5 < calibration() < 1.0
