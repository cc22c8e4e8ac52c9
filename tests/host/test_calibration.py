"""A fixed kernel whose time tells the machine's speed."""

from whichdevice.host import calibration
from whichdevice.host.calibration import BURSTS, MORE_BURSTS, Calibration, calibrate, product_seconds


def test_the_calibration_times_real_products() -> None:
    """0.27 GFLOP take between 10 microseconds (27 TFLOP/s) and a second (0.27 GFLOP/s) on any host."""
    assert 1e-5 < product_seconds() < 1.0


def test_bursts_go_on_only_while_the_question_is_open(monkeypatch) -> None:
    monkeypatch.setattr(calibration, "MORE_GAP_SECONDS", 0.0)
    monkeypatch.setattr(calibration, "BURST_SECONDS", 0.0)
    assert len(calibrate(lambda found: True).all_cores) == BURSTS
    assert len(calibrate(lambda found: len(found.one_core) >= BURSTS + 2).one_core) == BURSTS + 2
    assert len(calibrate(lambda found: False).all_cores) == BURSTS + MORE_BURSTS


def test_two_bursts_must_agree_before_a_speed_is_believed() -> None:
    assert Calibration([1.0, 1.04, 1.3, 1.3]).settled
    assert not Calibration([1.0, 1.3, 1.3, 1.3]).settled


def test_the_change_is_of_the_fastest_bursts() -> None:
    before = Calibration([1.0, 1.3], [2.0, 2.5])
    after = Calibration([1.2, 1.5], [1.0, 2.0])
    assert (after.change(before), after.change_on_one_core(before)) == (1.2, 0.5)
