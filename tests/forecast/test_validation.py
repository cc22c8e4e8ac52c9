"""Forecasts hold on published times that the fit did not see. From committed digests, in seconds."""

import math
from dataclasses import replace

import pytest

from whichdevice.config.hardware import hardware_rows
from whichdevice.forecast.time_model import LAUNCHES, Peaks, chip_of, forecast_step, read_constants
from whichdevice.forecast.validation import (
    constants_of,
    evaluations,
    fit,
    forecast_all,
    half_width,
    left_out,
    published_rows,
    read_results,
    widths_of,
)
from whichdevice.forecast.work import Item, Work

ROWS = published_rows()
GPU = [row for row in ROWS if row.platform == "gpu"]
TPU = [row for row in ROWS if row.platform == "tpu"]
FOUND = evaluations(GPU)
SHEET = hardware_rows()


@pytest.mark.parametrize("case", ["known", "device"])
def test_with_whole_sources_or_devices_left_out_the_median_error_is_small_and_the_interval_holds(case):
    assert FOUND[case].median_error <= 0.15
    assert FOUND[case].coverage >= 0.75


def test_the_interval_of_a_known_device_is_not_wider_than_its_purpose():
    # Only here: with eight chips, 0.8 of nine groups is the eighth of eight, so devices left out are held more often.
    assert FOUND["known"].coverage <= 0.92


def test_the_interval_of_a_known_device_and_family_is_at_most_a_factor_of_1_4():
    assert math.exp(widths_of(FOUND)["known"]) <= 1.4


def test_what_is_less_known_has_a_wider_interval():
    widths = read_constants()["gpu"]["widths"]
    assert widths["known"] < widths["device"] < widths["family"] <= widths["both"]


def test_times_of_tpus_lie_within_their_intervals():
    assert evaluations(TPU)["known"].coverage >= 0.75


def test_no_forecast_moved_without_its_row():
    accepted, now = read_results(), forecast_all(ROWS, read_constants())
    assert accepted.keys() == now.keys()
    assert {name for name in now if abs(now[name] / accepted[name] - 1) > 0.02} == set()


def test_the_committed_constants_are_what_the_rows_give():
    for platform, rows in (("gpu", GPU), ("tpu", TPU)):
        refitted, committed = constants_of(rows), read_constants()[platform]
        assert refitted["factors"] == pytest.approx(committed["factors"], rel=0.02)
        assert refitted["widths"] == pytest.approx(committed["widths"], abs=0.02)
        assert (refitted["chips"], refitted["families"]) == (committed["chips"], committed["families"])


def test_a_fit_finds_the_factors_that_made_the_times():
    factors = fit(GPU)
    made = [replace(row, seconds=row.seconds) for row in GPU]
    now = forecast_all(made, {"gpu": {"factors": read_constants()["gpu"]["factors"] | factors}})
    again = fit([replace(row, seconds=now[row.id] / 1e3) for row in made])
    assert again["memory"] == pytest.approx(factors["memory"], rel=0.05)
    assert again["convolution tf32"] == pytest.approx(factors["convolution tf32"], rel=0.1)


def test_an_outlier_group_widens_the_interval_whatever_its_number_of_rows():
    groups = ["a"] * 50 + ["b", "c", "d"]
    assert half_width([0.1] * 50 + [0.2, 0.3, 0.9], groups) == 0.9
    assert half_width([0.1] * 53, groups) == 0.1


def test_a_group_is_forecast_without_its_own_rows():
    doubled = [replace(row, seconds=2 * row.seconds) if row.source_group == "neusight" else row for row in GPU]
    honest, changed = (left_out(rows, lambda row: row.source_group) for rows in (GPU, doubled))
    places = [place for place, row in enumerate(GPU) if row.source_group == "neusight"]
    for place in places:
        assert changed.residuals[place] - honest.residuals[place] == pytest.approx(math.log(2), abs=1e-6)


@pytest.mark.parametrize(
    ("device", "known"), [("A100 PCIe 40GB", True), ("V100 SXM2 32GB", True), ("L4", False), ("B200 SXM", False)]
)
def test_a_device_without_published_times_is_called_unknown_and_gets_a_wider_interval(device, known):
    row = next(row for row in GPU if row.family == "convolutions")
    found = forecast_step(row.work, SHEET[device])
    assert (found.case_device_known, found.case_family_known) == (known, True)
    widths = read_constants()["gpu"]["widths"]
    assert math.log(found.high / found.seconds) == pytest.approx(widths["known" if known else "device"])
    assert ("no published times" in found.note) is not known


def test_depthwise_networks_are_a_family_that_one_source_does_not_make_known():
    row = next(row for row in GPU if "mobilenet" in row.model)
    found = forecast_step(row.work, SHEET["RTX 4090"])
    assert found.family == "grouped convolutions"
    assert not found.case_family_known


def test_grouped_convolutions_on_a_tpu_have_a_forecast_with_the_widest_interval():
    """No published time of a TPU has them; MobileNets are full of them."""
    row = next(row for row in GPU if "mobilenet" in row.model)
    grouped = tuple(item for item in row.work.items if item.kind in ("grouped convolution", "memory"))
    found = forecast_step(Work("tpu", grouped), SHEET["TPU v2"])
    widths = read_constants()
    assert math.log(found.high / found.seconds) == pytest.approx(
        max(widths["gpu"]["widths"]["both"], widths["tpu"]["widths"]["both"])
    )
    assert found.note.startswith("no published times of grouped convolutions on a TPU")
    assert not found.case_family_known


def test_of_a_small_step_the_host_decides():
    small = Work("gpu", (Item("memory", "", 0.0, 1e5, 300), Item("product", "float32", 1e8, 1e6, 4)))
    found = forecast_step(small, SHEET["A100 SXM 80GB"])
    assert found.family == "small steps"
    assert "the host decides" in found.note
    assert found.low < found.seconds / 2 < 2 * found.seconds < found.high
    assert found.high > 304 * LAUNCHES[1]


def test_parts_add_up_to_the_time():
    found = forecast_step(GPU[0].work, SHEET[GPU[0].device])
    assert sum(found.parts.values()) == pytest.approx(found.seconds)


def test_a_card_of_low_power_takes_longer_for_its_products():
    product = Work("gpu", (Item("product", "half", 1e13, 1e8, 20),))
    factors = read_constants()["gpu"]["factors"]
    seconds = forecast_step(product, SHEET["T4"]).parts["product half"]
    peak = Peaks.of(SHEET["T4"]).operations["half"]
    assert seconds == pytest.approx(20 * 1e13 / peak * factors["product half"] * factors["low power"])


def test_float32_products_take_the_exact_units_where_a_device_has_no_tf32():
    product = Work("gpu", (Item("product", "tf32", 1e13, 1e8, 20),))
    assert set(forecast_step(product, SHEET["V100 SXM2"]).parts) == {"product float32", "launches"}
    assert set(forecast_step(product, SHEET["A100 SXM 80GB"]).parts) == {"product tf32", "launches"}


def test_a_chip_is_the_device_without_form_and_memory():
    names = ("A100 PCIe 40GB", "V100 SXM2 32GB", "RTX 4090", "H200 SXM", "RTX 6000 Pro Workstation", "TPU v5e")
    assert [chip_of(name) for name in names] == ["A100", "V100", "RTX 4090", "H200", "RTX 6000 Pro", "TPU v5e"]
