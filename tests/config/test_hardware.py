"""The hardware and price sheets are read whole, or refused with the line and the column; and they are complete."""

from datetime import date
from pathlib import Path

import pytest
from beside import beside

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import HARDWARE, HardwareRow, hardware_rows
from whichdevice.base.sheets.machines import ASSUMED, MACHINES
from whichdevice.base.sheets.prices import PRICES, PRICES_VARIABLE, price_sheet

BESIDE = beside(__file__)

ROWS = hardware_rows()
CUDA = [row for row in ROWS.values() if row.vendor == "NVIDIA" and row.kind == "gpu"]
OFFER = "Cloud,machine,T4,1,here,on_demand,1,,,2026-11-24,a list\n"


@pytest.mark.parametrize(
    ("device", "vendor", "generation", "software"),
    BESIDE["every device but a cpu has forecasts and apples of pytorch alone"],
)
def test_every_device_but_a_cpu_has_forecasts_and_apples_of_pytorch_alone(device, vendor, generation, software) -> None:
    row = ROWS[device]
    assert [row.vendor, row.generation, [*row.software]] == [vendor, generation, software]


def test_a_computers_gpu_has_a_part_of_the_memory() -> None:
    assert ROWS["Apple M1 Max"].memory == 48 * 2**30
    assert ROWS["T4"].memory == ROWS["T4"].mem_bytes and ROWS["TPU v2"].memory == 8 * 2**30


@pytest.mark.parametrize("row", CUDA, ids=lambda row: row.device)
def test_the_float32_peak_of_a_gpu_follows_from_its_units_and_clock(row: HardwareRow) -> None:
    assert row.sms and row.clock_ghz
    units = BESIDE["units"][row.compute_capability or ""]
    assert row.fp32_tflops == pytest.approx(row.sms * units * 2 * row.clock_ghz / 1e3, rel=0.05)


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.device)
def test_every_value_has_a_source_and_none_is_from_memory(row: HardwareRow) -> None:
    assert row.spec_source and "from memory" not in row.spec_source


@pytest.mark.parametrize(("right", "wrong", "message"), BESIDE["a slip is reported with its line"])
def test_a_slip_is_reported_with_its_line(right: str, wrong: str, message: str, tmp_path: Path) -> None:
    text = HARDWARE.read_text(encoding="utf-8")
    assert right in text
    (tmp_path / "hardware.csv").write_text(text.replace(right, wrong, 1), encoding="utf-8")
    with pytest.raises(StudyError, match=f"^hardware.csv.*{message}"):
        hardware_rows(tmp_path / "hardware.csv")


def test_a_row_that_ends_early_is_empty_from_there(tmp_path: Path) -> None:
    (tmp_path / "hardware.csv").write_text(HARDWARE.read_text(encoding="utf-8") + "My device,gpu\n", encoding="utf-8")
    assert hardware_rows(tmp_path / "hardware.csv")["My device"].half_type == ""


def test_every_offer_has_a_price_a_day_and_a_source() -> None:
    offers = [offer for row in ROWS.values() for offer in row.offers]
    assert len(offers) == len(PRICES.read_text(encoding="utf-8").splitlines()) - 1
    for offer in offers:
        assert offer.source and date(2024, 12, 1) <= offer.date
        assert offer.offer != "free" or offer.session_hours


def test_free_and_spot_offers_are_never_the_price_of_a_device() -> None:
    t4 = ROWS["T4"]
    assert t4.cheapest is not None and t4.cheapest.usd_per_hour > 0.1
    free = [
        (each.provider, each.count, each.session_hours, each.week_hours) for each in t4.offers if not each.usd_per_hour
    ]
    assert free == [("Colab", 1, 12, None), ("Kaggle", 2, 12, 30)]
    spot, paid = ROWS["H100 SXM"].cheapest_of("spot"), ROWS["H100 SXM"].cheapest
    assert spot is not None and paid is not None and spot.usd_per_hour < paid.usd_per_hour
    assert ROWS["RTX 5090"].card is not None and ROWS["RTX 5090"].card.usd == 1999


def test_every_machine_has_a_source_and_its_cores() -> None:
    machines = [machine for row in ROWS.values() for machine in row.machines]
    assert len(machines) == len(MACHINES.read_text(encoding="utf-8").splitlines()) - 1
    assert all(machine.source and 0.5 <= machine.vcpus / machine.count <= 80 for machine in machines)
    free = {
        name: row.host_cores(1, "free") for name, row in ROWS.items() if any(not one.usd_per_hour for one in row.offers)
    }
    assert {name: cores.number for name, cores in free.items()} == {"T4": 2, "P100 PCIe": 4, "TPU v5e": 26}
    assert free["T4"].log_sd == 0


def test_the_cores_of_a_device_are_the_median_of_machines_by_the_card() -> None:
    eight = ROWS["H100 SXM"].host_cores(8)
    assert eight.number >= 128 and eight.low < eight.number < eight.high and 0.2 < eight.log_sd < 0.5
    assert ROWS["TPU v3"].host_cores(8).number == 96  # a device is half of a chip
    assert ROWS["RTX 3070"].host_cores(2) == ASSUMED.of(2) and ASSUMED.of(2).number == 16


def test_skypilots_name_is_known_of_every_device_that_clouds_rent() -> None:
    paid = {row.device for row in ROWS.values() if row.cheapest}
    assert {name for name in paid if not ROWS[name].skypilot} == set(BESIDE["without a name of SkyPilot"])
    named = BESIDE["names of SkyPilot"]
    assert {device: ROWS[device].skypilot for device in named} == named


def sheet(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(PRICES.read_text(encoding="utf-8").splitlines()[0] + "\n" + "".join(lines), encoding="utf-8")
    return path


def test_the_cheapest_whole_machine_is_taken_and_a_gpu_alone_only_where_there_is_no_other(tmp_path: Path) -> None:
    alone = OFFER.replace("machine", "T4 (GPU only)").replace(",1,,,", ",0.1,,,")
    eight = "Other,machine,T4,8,here,on_demand,4,,,2026-11-24,a list\n"
    found = hardware_rows(prices=sheet(tmp_path, OFFER, eight, alone))["T4"]
    assert found.cheapest is not None and found.cheapest.provider == "Other" and len(found.offers) == 3
    only = hardware_rows(prices=sheet(tmp_path, alone))["T4"].cheapest
    assert only is not None and only.gpu_only
    assert hardware_rows(prices=sheet(tmp_path))["T4"].cheapest is None


@pytest.mark.parametrize(("right", "wrong", "message"), BESIDE["a slip in the prices is reported with its line"])
def test_a_slip_in_the_prices_is_reported_with_its_line(right: str, wrong: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=f"^mine.csv, {message}"):
        hardware_rows(prices=sheet(tmp_path, OFFER.replace(right, wrong)))


def test_the_config_names_another_price_sheet_or_the_environment_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PRICES_VARIABLE, raising=False)
    assert price_sheet() == PRICES
    monkeypatch.setenv(PRICES_VARIABLE, "ours.csv")
    assert price_sheet() == Path("ours.csv")
    assert price_sheet("mine.csv") == Path("mine.csv")
    with pytest.raises(StudyError, match=r"^cannot read ours\.csv"):
        hardware_rows()
