"""What two studies should have measured alike, so that a ratio between sittings can be weighed."""

import numpy as np
import pytest
import synthetic

from whichdevice.config.model import Device, Measure, SelfCheck
from whichdevice.config.self_check import with_self_check
from whichdevice.tables.comparison import controls

STUDY = synthetic.small_study(devices={"cpu": Device(kind="cpu")}, measure=Measure(repeats=4))
CHECKED = with_self_check(STUDY.model_copy(update={"self_check": SelfCheck(workload="mnist_official", batch_size=128)}))


def runs_of(study, speed: float = 1.0, kernel: float = 0.01):
    """Table `runs` at this speed; `kernel`: seconds of the fixed work before the first run, 1 % more with each."""
    runs = synthetic.runs_table(study, lambda run: 1000 * speed * (1 + run.repeat / 100))
    return runs.assign(calibration=kernel * 1.01 ** np.arange(len(runs)))


def test_a_slower_sitting_shows_in_the_fixed_product_and_in_the_self_check():
    found = controls(runs_of(CHECKED, 0.8, 0.0125), runs_of(CHECKED, 1.0, 0.01)).set_index("name")
    assert found.index.tolist() == [
        "the fixed work (a product shared by all cores, by NumPy) on the host of cpu",
        "the self-check cpu mnist_official tensorflow float32 128 1.0",
    ]
    assert found["ratio"].tolist() == pytest.approx([0.8, 0.8])
    assert (found["ratio_low"] < 0.8).all() and (found["ratio_high"] > 0.8).all()
    assert found["n"].tolist() == found["n_there"].tolist()


def test_times_of_different_fixed_work_are_no_control():
    assert len(controls(runs_of(STUDY), runs_of(STUDY))) == 1
    assert controls(runs_of(STUDY), runs_of(STUDY).assign(calibration_kernel="a product on each core")).empty


def test_what_one_side_lacks_is_no_control():
    assert len(controls(runs_of(CHECKED), runs_of(STUDY))) == 1
    assert controls(runs_of(STUDY), runs_of(STUDY).assign(calibration=None)).empty
