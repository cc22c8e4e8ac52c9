"""An hour's price comes from the config or the sheet, never both, and says which."""

import pytest
import synthetic

from whichdevice.commands.rent import TPUS
from whichdevice.config.hardware import hardware_rows
from whichdevice.config.model import Device
from whichdevice.measuring.request import build_request
from whichdevice.study_runs import study_runs
from whichdevice.tables.prices import Price, cores_of, price_of

SHEET = {
    "TPU v2": {
        "usd_hour_per_chip": "1.125", "price_scope": "a region", "price_source": "a catalogue", "matches": "TPU v2"
    },
    "TPU v5e": {
        "usd_hour_per_chip": "1.2", "price_scope": "a region", "price_source": "a catalogue", "matches": "TPU v5e"
    },
    "V100": {"usd_hour_per_chip": "2.48", "price_scope": "GPU only", "price_source": "a catalogue"},
    "K80": {"usd_hour_per_chip": "", "price_scope": "", "price_source": ""},
}  # fmt: skip


def price(device_name: str | None = None, **device: object) -> Price:
    study = synthetic.small_study(devices={"mine": Device(**{"kind": "gpu", **device})})
    return price_of("mine", device_name, study, SHEET)


def test_the_config_wins_and_is_the_price_of_the_whole_device() -> None:
    assert price(usd_per_hour=3.5, hardware="V100", replicas=4) == Price(3.5, "config: devices.mine.usd_per_hour")


def test_the_sheet_is_taken_chip_by_chip_with_its_source() -> None:
    assert price(hardware="V100", replicas=2) == Price(4.96, "sheet: V100, 2 × 2.48 USD (GPU only; a catalogue)")


@pytest.mark.parametrize(("replicas", "usd"), [(16, 9.0), (8, 4.5), (2, 4.5), (1, 4.5)])
def test_two_cores_of_an_older_tpu_are_one_chip_and_four_chips_are_rented_together(replicas: int, usd: float) -> None:
    assert price(kind="tpu", hardware="TPU v2", replicas=replicas).usd_per_hour == usd


def test_a_price_says_where_more_is_rented_than_used() -> None:
    told = "sheet: TPU v2, 4 × 1.125 USD{} (a region; a catalogue)"
    assert price(kind="tpu", hardware="TPU v2", replicas=1).source == told.format(", rented 4 at a time")
    assert price(kind="tpu", hardware="TPU v2", replicas=8).source == told.format("")


@pytest.mark.parametrize(("replicas", "chips"), [(1, 1), (2, 4), (4, 4), (6, 8), (9, 16)])
def test_of_a_newer_tpu_the_smallest_machine_that_holds_the_chips_is_paid(replicas: int, chips: int) -> None:
    assert price(kind="tpu", hardware="TPU v5e", replicas=replicas).usd_per_hour == pytest.approx(1.2 * chips)


def test_the_machines_that_are_paid_are_those_that_rent_rents() -> None:
    for hardware, chips, replicas, _ in TPUS.values():
        assert replicas == chips * cores_of(hardware)
        study = synthetic.small_study(devices={"mine": Device(kind="tpu", replicas=replicas)})
        found = price_of("mine", hardware, study, hardware_rows())
        each = float(hardware_rows()[hardware]["usd_hour_per_chip"])
        assert found.usd_per_hour == pytest.approx(chips * each) and "at a time" not in found.source


def test_without_a_row_in_the_config_the_devices_own_name_finds_the_price() -> None:
    assert price("TPU v5e", kind="tpu").source.startswith("sheet: TPU v5e, 1 × 1.2 USD")


def test_the_price_of_another_device_than_was_measured_is_no_price() -> None:
    wrong = "devices.mine.hardware is TPU v2, and the device is a TPU v5e: set devices: {mine: {hardware: TPU v5e}}"
    assert price("TPU v5e", kind="tpu", hardware="TPU v2") == Price(None, f"no price: {wrong}")
    assert price("TPU v5e", kind="tpu", hardware="TPU v2", usd_per_hour=3).usd_per_hour == 3
    assert price("a TPU", kind="tpu", hardware="TPU v2").usd_per_hour == 4.5


def test_without_a_price_it_says_what_to_set() -> None:
    assert price(kind="cpu") == Price(None, "no price: set devices.mine.usd_per_hour")
    assert price(hardware="K80") == Price(None, "no price: the sheet has none for K80; set devices.mine.usd_per_hour")
    assert price_of("gone", None, synthetic.small_study(), SHEET) == Price(
        None, "no price: the config has no device gone"
    )


def test_every_price_of_the_sheet_has_a_number_and_a_source() -> None:
    for row in hardware_rows().values():
        if row["usd_hour_per_chip"]:
            assert float(row["usd_hour_per_chip"]) > 0
            assert row["price_scope"] and row["price_source"]


def test_price_and_target_measure_nothing_again() -> None:
    study = synthetic.small_study()
    run = study_runs(study)[0]
    before = build_request(study, run)
    study.devices["cpu"].usd_per_hour, study.devices["cpu"].hardware = 7.0, "TPU v2"
    study.workloads["mnist_cnn"].target = 0.5
    assert build_request(study, run) == before
