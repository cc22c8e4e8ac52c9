"""A step that was timed on one's own card moves the other forecasts, as far as they have the same error."""

import math
from dataclasses import replace

import numpy as np
import pytest

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.answer import Forecast
from whichdevice.forecast.own_card import MEASURED_SD, WORKS, Error, corrected, given, off_by, timed_here
from whichdevice.forecast.time_model import forecast_step, read_constants
from whichdevice.measure.machine.gpu_rates import of_pytorch

HERE = Forecast(
    device="RTX 4090", chip="RTX 4090", devices=1, software="eager", workload="net", mode="train", precision="float32",
    family="convolutions", step_time=0.1, step_time_low=0.08, step_time_high=0.125, device_time=0.1,
    log_sd_shared=0.15, log_sd_own=0.1, host_time=0.001, host_log_sd=0.3, throughput=640.0,
)  # fmt: skip
MEASURED = replace(HERE, own_step_time=0.13, residual=1.3)
FOUR = replace(HERE, devices=4, step_time=0.03, device_time=0.03)
OTHER = replace(HERE, device="T4", chip="T4", step_time=0.5, device_time=0.5)
OTHER_MODEL = replace(HERE, workload="other")


def moves(*forecasts):
    """How many times as long the others take, given the step that was timed."""
    return [its.moved for its in corrected([MEASURED, *forecasts])[1:]]


def test_its_chip_is_moved_most_and_other_devices_by_what_they_share():
    four, other = moves(FOUR, OTHER)
    assert 1.0 < other < four < 1.3


def test_another_model_on_the_chip_is_moved_by_the_chips_part_alone():
    [same], [model] = moves(FOUR), moves(OTHER_MODEL)
    assert 1.0 < model < same
    assert moves(replace(OTHER_MODEL, device="T4", chip="T4"), replace(FOUR, software="xla")) == [None, None]


def test_a_model_of_another_family_is_moved_less():
    [same], [other] = moves(OTHER_MODEL), moves(replace(OTHER_MODEL, family="products"))
    assert 1.0 < other < same


def test_intervals_become_narrower_and_throughput_follows():
    [_, four] = corrected([MEASURED, FOUR])
    assert four.log_sd_shared < FOUR.log_sd_shared and four.log_sd_own < FOUR.log_sd_own
    assert four.step_time_low < four.step_time < four.step_time_high
    assert four.step_time / FOUR.step_time == pytest.approx(four.moved, rel=1e-2)
    assert four.throughput == pytest.approx(640.0 * FOUR.step_time / four.step_time)


def test_the_measured_step_keeps_its_forecast_beside_it():
    [measured, _] = corrected([MEASURED, FOUR])
    assert measured == MEASURED


def test_a_step_that_the_host_decides_says_nothing_of_the_chip():
    slow = replace(MEASURED, own_step_time=0.13, host_time=0.12)
    assert corrected([slow, FOUR])[1] == FOUR


def test_nothing_measured_changes_nothing():
    assert corrected([HERE, FOUR]) == [HERE, FOUR]


def test_four_steps_say_more_than_one():
    one = Error("eager", "RTX 4090", ("a",), "convolutions", 0.15, 0.1)
    asked = replace(one, question=("new",))
    measured = [(replace(one, question=(name,)), 0.2) for name in "abcd"]
    few, more = given(measured[:1], asked), given(measured, asked)
    assert 0 < few[0] < more[0] < 0.2
    assert math.hypot(*more[1:]) < math.hypot(*few[1:])


@pytest.mark.parametrize("software", ["eager", "torch.compile", "xla", "xla on TPU"])
def test_two_models_of_a_family_on_two_chips_have_errors_of_one_distribution(software):
    """A covariance has no negative eigenvalue; three of the four do not say all of the last."""
    variances = read_constants()[software]["variances"]
    own = math.sqrt(0.07**2 + variances["machine"] + variances["rest"])
    errors = [Error(software, chip, (name,), "convolutions", 0.15, own) for chip in ("T4", "L4") for name in "ab"]
    matrix = [[one.variance_with(other, here=True) for other in errors] for one in errors]
    assert np.linalg.eigvalsh(matrix).min() > -1e-12
    _, *spreads = given([(error, 0.1) for error in errors[:3]], errors[3])
    assert math.hypot(*spreads) > 2 * MEASURED_SD


def test_constants_have_the_parts_that_a_machine_and_a_question_do_not_share():
    assert all({"machine", "rest"} <= set(its["variances"]) for its in read_constants().values() if "variances" in its)


@pytest.mark.parametrize("device", ["RTX 4090", "H100 SXM", "T4"])
def test_a_product_and_a_triad_move_that_chips_forecasts_alone(device):
    row = hardware_rows()[device]
    seconds = {name: 1.2 * forecast_step(work, row, "predict").device_time for name, work in WORKS.items()}
    timed = off_by(row, seconds)
    assert [log for _, log in timed] == pytest.approx([math.log(1.2)] * 2)
    chip = timed[0][0].chip
    own, other = corrected([replace(FOUR, chip=chip), replace(FOUR, chip="another")], timed)
    assert 1.0 < own.moved < 1.2 and other.moved is None


@pytest.mark.needs("torch")
def test_a_product_and_a_triad_are_timed():
    found = of_pytorch(32, 1024, "cpu", window=0.0)
    assert set(found) == set(WORKS) and all(seconds > 0 for seconds in found.values())


def test_without_a_gpu_nothing_is_timed(monkeypatch):
    monkeypatch.setattr("whichdevice.measure.machine.gpu.present", lambda: 0)
    assert timed_here() == []
