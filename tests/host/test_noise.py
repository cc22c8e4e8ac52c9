"""What counts as a disturbed run."""

from collections.abc import Callable

import pytest

from whichdevice.machine.calibration import KERNEL, Calibration
from whichdevice.machine.noise import NoiseWatch, ProcessorTime
from whichdevice.records.schema import Clocks, Noise


def at(
    wall: float,
    busy: float = 0.0,
    own: float = 0.0,
    steal: float | None = 0.0,
    cores: int = 4,
    throttled: float | None = 0.0,
) -> ProcessorTime:
    return ProcessorTime(wall, wall * cores, busy, own, steal, throttled)


class NoClocks:
    def __init__(self, **seen) -> None:
        self._seen = Clocks(**seen)

    def start(self) -> None:
        pass

    def stop(self) -> Clocks:
        return self._seen


def bursts(all_cores: float, one_core: float = 1.0) -> Calibration:
    return Calibration([all_cores] * 4, [one_core] * 4)


def watched(
    before: Calibration,
    after: Calibration,
    *snapshots: ProcessorTime,
    cores: int = 4,
    kind: str = "cpu",
    clocks: NoClocks | None = None,
) -> Noise:
    """A run of ten seconds; between the first and the last snapshot lie those of its timed windows."""
    found, moments = iter([before, after]), iter([at(0.0), *snapshots])
    watch = NoiseWatch(cores, kind, lambda answered: next(found), lambda: next(moments), clocks or NoClocks())
    watch.start()
    for _ in snapshots[:-1]:
        watch.mark()
    return watch.stop()


QUIET = at(10.0, busy=40.0, own=39.7, steal=0.1)


def test_a_quiet_run_is_not_disturbed_and_keeps_its_numbers() -> None:
    noise = watched(bursts(1.0), bursts(1.05), QUIET)
    assert (noise.disturbed, noise.reasons) == (False, [])
    assert (noise.calibration_before, noise.calibration_after, noise.steal) == (1.0, 1.05, 0.1 / 40)
    assert noise.calibration_kernel == KERNEL
    assert noise.calibration_change == pytest.approx(1.05)
    assert noise.bursts_after == [[1.05] * 4, [1.0] * 4]
    assert noise.load_before is not None and noise.load_after is not None
    assert noise.severity == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (bursts(1.0), bursts(1.25), "25% slower after"),
        (bursts(1.25), bursts(1.0), "25% slower before"),
        (bursts(1.0, 1.0), bursts(1.25, 1.1), "on one core +10%"),
    ],
)
def test_a_changed_speed_is_a_reason_either_way(before: Calibration, after: Calibration, reason: str) -> None:
    noise = watched(before, after, QUIET)
    assert noise.disturbed and len(noise.reasons) == 1
    assert reason in noise.reasons[0] and "(bound 10%; on one core" in noise.reasons[0]
    assert noise.severity == pytest.approx(2.5)


def test_one_core_alone_that_changed_is_no_reason() -> None:
    assert not watched(bursts(1.0, 1.0), bursts(1.0, 1.25), QUIET).disturbed


def test_after_the_run_it_looks_until_the_speed_is_back() -> None:
    questions: list[Callable[[Calibration], bool] | None] = []

    def calibrate(answered: Callable[[Calibration], bool] | None) -> Calibration:
        questions.append(answered)
        return bursts(1.0)

    watch = NoiseWatch(4, "cpu", calibrate, lambda: at(0.0), NoClocks())
    watch.start()
    watch.stop()
    assert questions[0] is None and questions[1] is not None
    assert questions[1](bursts(1.05)) and not questions[1](bursts(1.2))


def test_stolen_time_is_a_reason() -> None:
    noise = watched(bursts(1.0), bursts(1.0), at(10.0, steal=2.0))
    assert noise.reasons == ["the hypervisor took 5.0% of processor time of the run (bound 2%)"]


def test_time_that_a_quota_held_up_is_a_reason() -> None:
    assert watched(bursts(1.0), bursts(1.0), at(10.0, throttled=0.4)).reasons == []
    noise = watched(bursts(1.0), bursts(1.0), at(10.0, throttled=2.0))
    assert noise.reasons == ["a limit of processor time held its processes up for 5.0% of the run (bound 2%)"]
    assert noise.throttled == pytest.approx(0.05)


def test_where_no_limit_is_counted_none_is_recorded() -> None:
    noise = watched(bursts(1.0), bursts(1.0), at(10.0, throttled=None))
    assert (noise.throttled, noise.disturbed) == (None, False)


def test_company_is_a_reason_and_ones_own_work_is_not() -> None:
    assert watched(bursts(1.0), bursts(1.0), at(10.0, busy=40.0, own=40.0)).reasons == []
    reasons = watched(bursts(1.0), bursts(1.0), at(10.0, busy=40.0, own=20.0)).reasons
    assert reasons == ["other processes took 50% of the processors of the run (bound 0.062)"]


def test_company_during_the_timed_windows_alone_is_a_reason() -> None:
    begin, end = at(8.0, busy=30.0, own=30.0), at(9.0, busy=34.0, own=33.0)
    noise = watched(bursts(1.0), bursts(1.0), begin, end, at(10.0, busy=38.0, own=37.0))
    assert noise.reasons == ["other processes took 25% of the processors of the timed windows (bound 0.062)"]
    assert (noise.others, noise.others_timed) == (pytest.approx(0.025), pytest.approx(0.25))


@pytest.mark.parametrize(("kind", "disturbed"), [("cpu", True), ("gpu", False)])
def test_half_a_core_of_sixteen_holds_up_work_in_step_and_not_a_gpu(kind: str, disturbed: bool) -> None:
    end = at(10.0, busy=160.0, own=155.0, cores=16)
    assert watched(bursts(1.0), bursts(1.0), end, cores=16, kind=kind).disturbed is disturbed


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({"cpu_throttles": 3}, "the processor throttled for heat (3 times)"),
        ({"gpu_busy_before": 0.4}, "the GPU was 40% busy before the run (bound 10%)"),
        ({"gpu_throttling": ["power brake"]}, "the GPU throttled: power brake"),
    ],
)
def test_what_the_device_did_is_a_reason(seen: dict, reason: str) -> None:
    assert watched(bursts(1.0), bursts(1.0), QUIET, clocks=NoClocks(**seen)).reasons == [reason]


def test_a_system_that_states_no_steal_has_none() -> None:
    assert watched(bursts(1.0), bursts(1.0), at(10.0, steal=None)).steal is None


def test_stop_before_start_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="before start"):
        NoiseWatch(4, "cpu", lambda answered: bursts(1.0)).stop()
