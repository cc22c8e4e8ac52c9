"""Prices are found by the config or the price sheet."""

from datetime import date
from typing import Literal

import pytest
import synthetic

from whichdevice.base.sheets.hardware import HardwareRow, hardware_rows
from whichdevice.base.sheets.prices import Offer
from whichdevice.base.sheets.tpus import CHIPS, devices_of
from whichdevice.study.cells import study_runs
from whichdevice.study.config.model import Device
from whichdevice.study.request import build_request
from whichdevice.study.tables.hardware import HourlyPrice, price_of


def row(device: str, usd: float | None, count: int = 1, matches: str = "") -> HardwareRow:
    """A row of the sheet with one offer of an instance, or with none."""
    offer = Offer(
        provider="Cloud", instance="machine", device=device, count=count, region="a region",
        offer="on_demand", instance_usd_per_hour=usd or 1, date=date(2026, 11, 24), source="a list",
    )  # fmt: skip
    kind: Literal["gpu", "tpu"] = "tpu" if device.startswith("TPU") else "gpu"
    return HardwareRow(device=device, kind=kind, matches=matches, offers=(offer,) if usd else ())


WORDS = "Cloud machine, a region, 2026-11-24; a list"
SHEET = {
    "TPU v2": row("TPU v2", 4.5, 4, "TPU v2"),
    "TPU v5e": row("TPU v5e", 1.2, 1, "TPU v5e"),
    "V100": row("V100", 2.48),
    "K80": row("K80", None),
}


def price(device_name: str | None = None, **device: object) -> HourlyPrice:
    study = synthetic.small_study(devices={"mine": Device(**{"kind": "gpu", **device})})
    return price_of("mine", device_name, study, SHEET)


@pytest.mark.parametrize(("replicas", "usd"), [(16, 9.0), (8, 4.5), (2, 4.5), (1, 4.5)])
def test_two_cores_of_an_older_tpu_are_one_chip_and_four_chips_are_rented_together(replicas: int, usd: float) -> None:
    assert price(kind="tpu", hardware="TPU v2", replicas=replicas).usd_per_hour == usd


def test_a_price_says_where_more_is_rented_than_used() -> None:
    told = f"sheet: TPU v2, 4 × 1.125 USD{{}} ({WORDS})"
    assert price(kind="tpu", hardware="TPU v2", replicas=1).source == told.format(", rented 4 at a time")
    assert price(kind="tpu", hardware="TPU v2", replicas=8).source == told.format("")


@pytest.mark.parametrize(("replicas", "chips"), [(1, 1), (2, 4), (4, 4), (6, 8), (9, 16)])
def test_of_a_newer_tpu_the_smallest_machine_that_holds_the_chips_is_paid(replicas: int, chips: int) -> None:
    assert price(kind="tpu", hardware="TPU v5e", replicas=replicas).usd_per_hour == pytest.approx(1.2 * chips)


def test_the_machines_that_are_paid_are_those_that_rent_rents() -> None:
    rented = [(chip.device, chips) for chip in CHIPS.values() if chip.runtime for chips in chip.machines]
    for hardware, chips in rented:
        replicas = chips * devices_of(hardware)
        study = synthetic.small_study(devices={"mine": Device(kind="tpu", replicas=replicas)})
        found = price_of("mine", hardware, study, hardware_rows())
        offer = hardware_rows()[hardware].cheapest
        assert offer is not None
        each = offer.usd_per_hour
        assert found.usd_per_hour == pytest.approx(chips * each) and "at a time" not in found.source


def test_without_a_row_in_the_config_the_devices_own_name_finds_the_price() -> None:
    assert price("TPU v5e", kind="tpu").source.startswith("sheet: TPU v5e, 1 × 1.2 USD")


def test_the_price_of_another_device_than_was_measured_is_no_price() -> None:
    wrong = "devices.mine.hardware is TPU v2, and the device is a TPU v5e: set devices: {mine: {hardware: TPU v5e}}"
    assert price("TPU v5e", kind="tpu", hardware="TPU v2") == HourlyPrice(None, f"no price: {wrong}")
    assert price("TPU v5e", kind="tpu", hardware="TPU v2", usd_per_hour=3).usd_per_hour == 3
    assert price("a TPU", kind="tpu", hardware="TPU v2").usd_per_hour == 4.5


def test_without_a_price_it_says_what_to_set() -> None:
    assert price(kind="cpu") == HourlyPrice(None, "no price: set devices.mine.usd_per_hour")
    assert price(hardware="K80") == HourlyPrice(
        None, "no price: the price sheet has none for K80; set devices.mine.usd_per_hour"
    )
    assert price_of("gone", None, synthetic.small_study(), SHEET) == HourlyPrice(
        None, "no price: the config has no device gone"
    )


def test_a_price_measures_nothing_again() -> None:
    study = synthetic.small_study()
    run = study_runs(study)[0]
    before = build_request(study, run)
    study.devices["cpu"].usd_per_hour, study.devices["cpu"].hardware = 7.0, "TPU v2"
    study.prices = "mine.csv"
    assert build_request(study, run) == before
