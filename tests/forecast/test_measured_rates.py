"""What somebody measured on a chip replaces its sheet; chips without published times are no faster than they can be."""

from itertools import permutations

import pytest

from whichdevice.base.sheets.hardware import hardware_rows, measured_rates
from whichdevice.forecast.time_model import Peaks, chip_of, forecast_step
from whichdevice.forecast.work import Item, Work

SHEET = hardware_rows()
COLUMN = {"matrix": "half_dense_tflops", "memory": "mem_bw_gbs"}
GPUS = [row for row in SHEET.values() if row.kind == "gpu" and (row.half_dense_tflops or 0) > (row.fp32_tflops or 0)]
PRODUCTS = Work("gpu", (Item("product", "half", 1e13, 1e8, 200),), software="eager")
NETWORK = Work(
    "gpu",
    (
        Item("convolution", "half", 2e11, 2e8, 100),
        Item("product", "half", 1e11, 1e8, 40),
        Item("memory", "", 0.0, 2e8, 200),
    ),
    software="eager",
)


@pytest.mark.parametrize("rate", measured_rates(), ids=lambda rate: f"{rate.device} {rate.rate}")
def test_a_measured_rate_is_of_a_device_of_the_sheet_and_below_its_peak(rate) -> None:
    assert rate.of_sheet == getattr(SHEET[rate.device], COLUMN[rate.rate])
    assert 0.4 < rate.value / rate.of_sheet < 1.05 and rate.source


def test_a_chip_has_the_rates_that_were_measured_on_it_or_on_another_form() -> None:
    l40s, nvl, a10 = (Peaks.of(SHEET[name]) for name in ("L40S", "H100 NVL", "A10"))
    assert l40s.operations["half"] == pytest.approx(224.8e12) and set(l40s.measured) == {"matrix", "memory"}
    assert nvl.operations["half"] / 835.5e12 == pytest.approx(0.73, abs=0.02), (
        "of H100, H200 and GH200, with less power"
    )
    assert a10.operations["half"] == 125e12 and a10.measured == ()
    assert l40s.operations["float32"] == 91.6e12


def test_a_form_with_less_power_reaches_less_of_its_matrix_peak_than_the_measured_one() -> None:
    share = {
        name: Peaks.of(SHEET[name]).operations["half"] / (1e12 * (SHEET[name].half_dense_tflops or 1.0))
        for name in ("H100 SXM", "H100 NVL", "H100 PCIe", "A100 SXM 80GB", "A100 PCIe 80GB", "A100 PCIe 40GB")
    }
    assert share["H100 SXM"] > share["H100 NVL"] > share["H100 PCIe"] > 0.68
    assert share["A100 SXM 80GB"] > share["A100 PCIe 80GB"] > share["A100 PCIe 40GB"] > 0.75
    for rate in measured_rates():
        assert rate.watts == SHEET[rate.device].power_w, rate.device


def test_a_form_with_more_power_for_its_peak_holds_more_of_its_clock_than_the_one_that_was_timed() -> None:
    """An A10 has 125 TFLOP/s at 150 W, an A10G 70 at 300 W; A10 alone has published times."""
    share = {}
    for name in ("A10", "A10G"):
        rate = PRODUCTS.operations / forecast_step(PRODUCTS, SHEET[name]).device_time
        share[name] = rate / 1e12 / (SHEET[name].half_dense_tflops or 1.0)
    assert share["A10G"] > 1.25 * share["A10"]


def test_power_counts_by_degrees() -> None:
    power = {name: Peaks.of(SHEET[name]).low_power for name in ("T4", "A10", "A30", "H100 SXM")}
    assert power["T4"] == 1.0 > power["A10"] > power["A30"] > power["H100 SXM"] == 0.0
    assert power["A10"] - power["A30"] < 0.1


def test_no_forecast_of_products_is_above_three_quarters_of_a_peak_that_no_measurement_shows() -> None:
    for row in GPUS:
        found = forecast_step(PRODUCTS, row, "train")
        share = PRODUCTS.operations / found.device_time / ((row.half_dense_tflops or 0.0) * 1e12)
        shown = Peaks.of(row).operations["half"] / 1e12 / (row.half_dense_tflops or 1.0)
        measured = shown if "matrix" in Peaks.of(row).measured else 0.0
        assert share <= max(0.75, measured) or found.known_device, (row.device, share)


def test_a_card_that_is_stronger_in_all_that_a_sheet_says_is_seldom_slower() -> None:
    """MI300X is published slower than H100 and H200; V100 has times, and the two others beside it have none.

    A card that was measured itself is no weaker than its rates: only one that was, too, has to be as fast.
    """
    columns = ("fp32_tflops", "tf32_tflops", "half_dense_tflops", "mem_bw_gbs", "power_w")
    slower = []
    for one, other in permutations(GPUS, 2):
        values = [[getattr(row, name) or 0.0 for name in columns] for row in (one, other)]
        stronger = all(a >= b for a, b in zip(*values, strict=True)) and chip_of(one.device) != chip_of(other.device)
        known = set(Peaks.of(other).measured) <= set(Peaks.of(one).measured)
        if stronger and known and forecast_step(NETWORK, one).seconds > 1.02 * forecast_step(NETWORK, other).seconds:
            slower.append((one.device, other.device))
    assert len(slower) <= 4, slower
