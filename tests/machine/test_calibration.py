"""The calibration times fixed work."""

import pytest

from whichdevice.measure.machine.calibration import (
    BURSTS,
    MORE_BURSTS,
    Calibration,
    _cores_alike,
    _places,
    _Products,
    calibrate,
    read_rate,
)


def test_a_core_that_cannot_be_taken_is_worked_on_unpinned() -> None:
    products = _Products()
    products._cores = [1023] * len(products._cores)  # which this machine lacks
    assert 0 < products.burst() < 1


def test_no_two_threads_of_a_core_work_while_another_core_rests() -> None:
    siblings = [list(range(32)), list(range(32, 64))]  # 0 and 32 are one core, as Linux numbers them
    assert _places(siblings, 2) == [0, 16]
    assert _places(siblings, 32) == list(range(32))
    assert _places(siblings, 34) == [*range(32), 32, 48]
    assert _places(siblings, 64) == list(range(64))


@pytest.mark.parametrize(
    ("physical", "usable", "counted"),
    [
        (16, 32, 32),  # all 32 threads worked
        (24, 48, 48),  # some shared a core, and the slowest counts
        (64, 128, 64),  # 32 worked, each alone on its core
        (64, 48, 48),  # a quota
        (64, 64, 64),
    ],
)
def test_the_host_is_as_fast_as_its_cores_by_the_work_of_some(physical, usable, counted) -> None:
    siblings = [list(range(physical)), list(range(physical, 2 * physical))]
    assert _cores_alike(siblings, usable) == counted


def test_bursts_go_on_only_while_the_question_is_open() -> None:
    assert len(calibrate(lambda calibration: True).bursts) == BURSTS
    assert len(calibrate(lambda calibration: len(calibration.bursts) >= BURSTS + 2).bursts) == BURSTS + 2
    assert len(calibrate(lambda calibration: False).bursts) == BURSTS + MORE_BURSTS


def test_two_bursts_must_agree_before_a_speed_is_believed() -> None:
    assert Calibration([1.0, 1.04, 1.3, 1.3]).settled
    assert not Calibration([1.0, 1.3, 1.3, 1.3]).settled


def test_the_rate_of_memory_is_one() -> None:
    assert 1e8 < read_rate(64) < 1e13
