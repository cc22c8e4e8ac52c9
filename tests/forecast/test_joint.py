"""The errors of forecasts as one distribution: what cancels in a ratio, and what a fit finds."""

import math

import numpy as np
import pytest

from whichdevice.forecast import joint


def row(chip, time=0.1, shared=0.3, own=0.1, **more):
    return {
        "device_time": time,
        "log_sd_shared": shared,
        "log_sd_own": own,
        "software": "xla",
        "chip": chip,
        "form": chip,
        **more,
    }


def test_shared_errors_cancel_in_a_ratio_and_those_of_chips_remain():
    times = joint.draws([row("A"), row("B", 0.2), row("A")], 4000)
    low, middle, high = np.quantile(times[1] / times[0], [0.1, 0.5, 0.9])
    assert middle == pytest.approx(2, rel=0.02)
    assert math.log(high / low) / 2 == pytest.approx(1.2816 * math.hypot(0.1, 0.1), rel=0.06)
    assert np.log(times[0]).std() == pytest.approx(math.hypot(0.3, 0.1), rel=0.05)
    assert (times[0] == times[2]).all()  # one chip, one error


def test_forms_of_one_chip_share_its_error_but_for_a_part_of_their_own():
    pcie, sxm, other = (row("H100", form=form, own=0.2) for form in ("H100 PCIe", "H100 SXM", "H100 PCIe"))
    times = joint.draws([pcie, sxm, other], 4000)
    assert np.log(times[0] / times[1]).std() == pytest.approx(math.hypot(joint.FORM_SD, joint.FORM_SD), rel=0.05)
    assert np.log(times[0]).std() == pytest.approx(math.hypot(0.3, 0.2), rel=0.05)  # as wide as it was
    assert (times[0] == times[2]).all()


def test_draws_of_a_row_depend_on_no_other_row():
    alone, among = joint.draws([row("B")], 100, seed=3), joint.draws([row("A"), row("B")], 100, seed=3)
    assert (alone[0] == among[1]).all()


def test_below_the_hosts_time_devices_are_the_same():
    host = {"host_time": 0.02, "host_log_sd": 0.3}
    times = joint.draws([row("A", 0.001, **host), row("B", 0.0002, **host)], 2000)
    assert (times[0] == times[1]).all()
    low, middle, high = joint.interval(0.001, 0.3, 0.02, 0.3)
    assert middle == pytest.approx(0.02, rel=0.01)
    assert math.log(high / low) / 2 == pytest.approx(1.2816 * 0.3, rel=0.02)


@pytest.mark.parametrize(("device", "sd", "host", "host_sd"), [(0.1, 0.2, 0.0, 0.0), (0.1, 0.2, 0.08, 0.4)])
def test_an_interval_is_that_of_the_draws(device, sd, host, host_sd):
    times = joint.draws([row("A", device, sd, 0.0, host_time=host, host_log_sd=host_sd)], 40000)[0]
    assert joint.interval(device, sd, host, host_sd) == pytest.approx(np.quantile(times, [0.1, 0.5, 0.9]), rel=0.02)
