"""Forecasts hold on published times that the fit did not see. Everything is recomputed from committed digests."""

import math
from dataclasses import replace

import numpy as np
import pytest

from whichdevice.config.hardware import hardware_rows
from whichdevice.errors import StudyError
from whichdevice.forecast.time_model import LOW, Peaks, chip_of, forecast_step, read_constants, roofline_by_class
from whichdevice.forecast.validation import (
    constants_of,
    evaluations,
    fit,
    fit_factors,
    left_out,
    logs_of,
    published_rows,
    read_scorecard,
    scorecard,
)
from whichdevice.forecast.work import Item, Work

ROWS = published_rows()
WHOLE = fit(ROWS)
SHEET = hardware_rows()
XLA = [row for row in ROWS if row.software == "xla"]
NOISE = {"median_error": 0.01, "within": 0.03, "stated": 0.02, "ratio_within": 0.02, "wrong": 0.005, "regret": 0.002}


def test_no_figure_of_the_scorecard_is_worse_than_the_committed_one():
    now = scorecard(evaluations(ROWS, WHOLE))
    for software, its in read_scorecard().items():
        for left, figures in its.items():
            for name, noise in NOISE.items():
                if name in figures:
                    assert now[software][left][name] <= figures[name] + noise, (software, left, name)
            assert abs(now[software][left]["held"] - figures["held"]) <= 0.03, (software, left)
            assert now[software][left]["rows"] >= figures["rows"]


def test_intervals_hold_what_they_state_and_ratios_are_narrower_than_times():
    for software, its in read_scorecard().items():
        for left in ("models", "a chip"):
            figures = its[left]
            assert 0.70 <= figures["held"] <= 0.97, (software, left)
            if left == "models" and "pairs" in figures:
                assert figures["ratio_stated"] < figures["stated"]
                assert figures["ratio_held"] >= 0.76
                assert figures["decided"] >= 0.8
                assert figures["wrong"] <= 0.05


def test_the_committed_constants_are_what_the_rows_give():
    now, committed = constants_of(ROWS, WHOLE), read_constants()
    assert now.keys() == committed.keys()
    for software in now.keys() - {"how"}:
        assert now[software]["factors"] == pytest.approx(committed[software]["factors"], rel=0.02)
        assert now[software]["fitted"] == committed[software]["fitted"]
        for part in ("variances", "chips", "families"):
            assert now[software][part].keys() == committed[software][part].keys()
            for name, value in now[software][part].items():
                assert np.allclose(value, committed[software][part][name], atol=0.01), (software, part, name)


def test_a_fit_finds_the_factors_that_made_the_times():
    factors = fit_factors(XLA)
    made = [replace(row, seconds=row.seconds / math.exp(log)) for row, log in zip(XLA, logs(XLA, factors), strict=True)]
    again = fit_factors(made)
    for name in ("memory", "product half", "convolution tf32"):
        assert again[name] == pytest.approx(factors[name], rel=0.05)


def logs(rows, factors):
    return logs_of(rows, {"xla": factors})


def test_a_group_is_forecast_without_its_own_rows():
    group = "neusight"
    doubled = [replace(row, seconds=2 * row.seconds) if row.source_group == group else row for row in XLA]
    honest, changed = (left_out(rows, lambda row: row.source_group, fit(XLA)) for rows in (XLA, doubled))
    places = [place for place, row in enumerate(XLA) if row.source_group == group]
    assert changed.logs[places] - honest.logs[places] == pytest.approx(math.log(2), abs=1e-6)


def test_a_chip_without_published_times_gets_a_wider_interval():
    work = XLA[0].work
    known, unknown = (forecast_step(work, SHEET[name]) for name in ("A100 SXM 80GB", "B200 SXM"))
    assert (known.known_device, unknown.known_device) == (True, False)
    assert known.log_sd_own < unknown.log_sd_own
    assert known.log_sd_shared == pytest.approx(unknown.log_sd_shared, rel=0.1)
    assert unknown.note == "no published times of the B200: wider interval"


SMALL = Work("gpu", (Item("memory", "", 0.0, 1e5, 300), Item("product", "float32", 1e8, 1e6, 4)))


def test_a_small_step_takes_the_same_time_on_every_gpu():
    slow, fast = (forecast_step(SMALL, SHEET[name], host=(0.01, 0.2)) for name in ("T4", "H100 SXM"))
    assert slow.seconds == pytest.approx(fast.seconds, rel=0.01)
    assert slow.seconds == pytest.approx(0.01, rel=0.01)
    assert slow.high / slow.low < 1.8
    assert "the host decides" in slow.note


def test_parts_add_up_to_the_time_of_the_device():
    found = forecast_step(XLA[0].work, SHEET[XLA[0].device])
    offset = math.log(found.device_time / sum(found.parts.values()))
    assert abs(offset) < 0.4


def test_a_card_of_low_power_takes_longer_for_its_products():
    product = Work("gpu", (Item("product", "half", 1e13, 1e8, 20),))
    factors = read_constants()["xla"]["factors"]
    seconds = forecast_step(product, SHEET["T4"]).parts["product half"]
    peak = Peaks.of(SHEET["T4"]).operations["half"]
    assert seconds == pytest.approx(20 * 1e13 / peak * factors["product half"] * factors["low power"])
    assert "product half" + LOW in roofline_by_class(product, Peaks.of(SHEET["T4"]))


def test_float32_products_take_the_exact_units_where_a_device_has_no_tf32():
    product = Work("gpu", (Item("product", "tf32", 1e13, 1e8, 20),))
    assert set(forecast_step(product, SHEET["V100 SXM2"]).parts) == {"product float32", "launches"}
    assert set(forecast_step(product, SHEET["A100 SXM 80GB"]).parts) == {"product tf32", "launches"}


def test_software_without_published_times_on_a_device_has_no_forecast():
    with pytest.raises(StudyError, match="no published times of xla on TPU: no forecast"):
        forecast_step(Work("tpu", SMALL.items), SHEET["TPU v5e"], constants={"xla": {}})


def test_a_chip_is_the_device_without_form_and_memory():
    names = ("A100 PCIe 40GB", "V100 SXM2 32GB", "RTX 4090", "H200 SXM", "RTX 6000 Pro Workstation", "TPU v5e")
    assert [chip_of(name) for name in names] == ["A100", "V100", "RTX 4090", "H200", "RTX 6000 Pro", "TPU v5e"]
