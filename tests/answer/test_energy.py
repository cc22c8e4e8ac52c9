"""Energy and CO2 of an answer: forecast from a step, measured by counters, and what decides."""

import json
from dataclasses import replace

import pytest

from whichdevice.apps.commands.values import grams_of, rate_of
from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.grids import Grid, any_grid, grid_of
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide import Answer, Wants
from whichdevice.decide.decide import Amount, decide
from whichdevice.decide.energy import Power, board_share, forecast_power, metered
from whichdevice.decide.rows import FORECAST, MEASURED, Price, Row, Work
from whichdevice.decide.table import head, text
from whichdevice.decide.words import as_json, decision, lines, notes
from whichdevice.forecast.answer import Forecast

HOUR = Amount(3600.0)


def device(name: str, usd: float, watts: float, step: float = 1.0, grams: float = 400.0) -> Row:
    return Row(
        name, "gpu", FORECAST, step_time=step, chip=name, usd_per_hour=usd, rented=True, fits=True,
        price=Price("on_demand", "Cloud"), power=Power(watts, 0.0, 0.1, "forecast"), grid=Grid(grams, 0.0, "Iowa"),
    )  # fmt: skip


CHEAP, LEAN, CLEAN = device("A", 1.0, 400.0), device("B", 2.0, 200.0), device("C", 3.0, 300.0, grams=20.0)


def answer(*rows: Row, **wants: object) -> Answer:
    work = Work("net", "net.py", "train", 1, None, "image", 1.0, None, None, rows)
    return decide(work, Wants(**wants), HOUR)  # type: ignore[arg-type]


@pytest.mark.parametrize(("by", "pick"), [("cost", "A"), ("energy", "B"), ("co2", "C")])
def test_what_is_asked_for_decides(by: str, pick: str) -> None:
    asked = answer(CHEAP, LEAN, CLEAN, by=by)
    assert asked.pick and asked.pick.device == pick and asked.by == by


def test_an_interval_holds_the_power_and_the_grid() -> None:
    [option] = answer(CHEAP).options
    assert option.kwh == pytest.approx(0.4, rel=1e-3) and option.co2 == pytest.approx(0.16, rel=1e-3)
    assert option.kwh_high and option.kwh and option.kwh_high / option.kwh == pytest.approx(1.137, rel=0.01)
    [wide] = answer(replace(CHEAP, grid=any_grid())).options
    assert wide.co2_high and wide.co2 and wide.co2_high > 2 * wide.co2


def test_a_deadline_holds_for_energy_too() -> None:
    slow = device("S", 0.5, 20.0, step=10.0)
    assert (found := answer(CHEAP, slow, by="energy", deadline=7200.0)).pick and found.pick.device == "A"
    assert (found := answer(CHEAP, slow, by="energy")).pick and found.pick.device == "S"


def test_the_words_name_what_decides_and_how_it_is_known() -> None:
    asked = answer(CHEAP, LEAN, CLEAN, by="energy")
    assert decision(asked) == "Rent a B (Cloud): 60 min, USD 2.00, 0.2 kWh [0.18–0.23 kWh]."
    assert lines(asked)[1] == "Least energy of 3 that end within 24 h; that is sure."
    [line] = [line for line in notes(asked) if line.startswith("Energy")]
    assert "B, forecast: 0.2 kWh" in line and "400 g of CO2 a kWh in Iowa" in line
    here = Row("this machine", "cpu", MEASURED, step_time=1.0, chip="here", power=metered(50.0, "cpu"))
    [line] = [line for line in notes(answer(here)) if line.startswith("Energy")]
    assert "this machine, measured: 0.05 kWh" in line and "yours: --grid" in line


def test_a_terminal_shows_energy_where_it_is_asked_for() -> None:
    asked = answer(CHEAP, LEAN)
    assert "kWh" not in "\n".join(text(asked)) and "kWh" in "\n".join(text(asked, energy=True))
    assert head(asked, energy=True)[6] == "kWh, kg CO2"
    rows = json.loads(json.dumps(as_json(asked)))["rows"]
    assert rows[0]["kwh"] and rows[0]["power"]["evidence"] == "forecast" and rows[0]["grid"]["region"] == "Iowa"


def test_a_users_grid_is_exact() -> None:
    [option] = answer(CHEAP, grid=50.0).options
    assert option.co2 and option.kwh and option.co2 == pytest.approx(option.kwh * 0.05)
    assert grams_of("56") == 56.0 and grams_of("Iowa") == grid_of("us-central1").g_per_kwh > 100
    with pytest.raises(StudyError, match="--grid Atlantis: g of CO2 a kWh are needed"):
        grams_of("Atlantis")


@pytest.mark.parametrize(("text", "rate"), [("0.1", 0.1), ("10%", 0.1), ("5 %", 0.05), ("0", 0.0)])
def test_a_rate_of_interruptions_is_a_number_or_a_share(text: str, rate: float) -> None:
    assert rate_of(text) == pytest.approx(rate)


@pytest.mark.parametrize("text", ["", "often", "-1", "1000", "5%%x"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(StudyError, match="--interruptions"):
        rate_of(text)


def test_a_busy_board_draws_more_than_an_idle_one() -> None:
    idle, busy = (board_share(False, operations, 0.01, 1) for operations in (0.02, 0.6))
    assert 0.2 < idle < 0.6 < busy <= 1.05
    assert board_share(False, 0.6, 0.01, 512) == board_share(False, 0.6, 0.01, 8)  # as far as anybody measured


def test_a_forecast_has_its_boards_and_hosts_and_says_how_sure_that_is() -> None:
    sheet = hardware_rows()
    step = Forecast(device="H100 SXM", kind="gpu", step_time=0.1, operations=4e13, nbytes=1e11, mode="train")
    one, eight = (forecast_power(replace(step, devices=count), sheet["H100 SXM"]) for count in (1, 8))
    assert one and eight and 400 < one.watts <= 735 and 4000 < eight.total < 10_200  # a server's power supplies
    other = forecast_power(replace(step, device="RTX 4090"), sheet["RTX 4090"])
    assert other and other.evidence == "forecast" and other.log_sd > one.log_sd
    chip = forecast_power(replace(step, device="TPU v5e", kind="tpu"), sheet["TPU v5e"])
    assert chip and chip.log_sd > other.log_sd
    assert forecast_power(replace(step, step_time=None), sheet["H100 SXM"]) is None
