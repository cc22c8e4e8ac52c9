"""Kilowatt-hours of an answer: forecast from a step, or measured by counters."""

from dataclasses import replace

import pytest

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide import Answer, Wants
from whichdevice.decide.decide import Amount, decide
from whichdevice.decide.energy import Power, board_share, forecast_power
from whichdevice.decide.rows import FORECAST, AskedWork, Price, Row
from whichdevice.decide.words import as_json, cells, head
from whichdevice.forecast.answer import Forecast

ROW = Row(
    "A", "gpu", FORECAST, step_time=1.0, chip="A", usd_per_hour=1.0, rented=True, fits=True,
    price=Price("on_demand", "Cloud"), power=Power(400.0, 0.0, 0.1, "forecast"),
)  # fmt: skip


def answer(*rows: Row) -> Answer:
    return decide(AskedWork("net", "net.py", "train", 1, None, "image", 1.0, None, None, rows), Wants(), Amount(3600.0))


def test_an_interval_holds_the_power() -> None:
    [option] = answer(ROW).options
    assert option.kwh == pytest.approx(0.4, rel=1e-3)
    assert option.kwh_high and option.kwh and option.kwh_high / option.kwh == pytest.approx(1.137, rel=0.01)


def test_the_whole_table_has_a_column_of_energy_and_json_always() -> None:
    asked = answer(ROW, replace(ROW, card="B", chip="B", usd_per_hour=2.0, power=None))
    assert "kWh" not in head(asked) and head(asked, why=True)[6] == "kWh"
    assert [row[6] for _, row in cells(asked, why=True)] == ["0.4", "–"]
    assert as_json(asked)["rows"][0]["kwh"] and as_json(asked)["rows"][0]["power"]["evidence"] == "forecast"


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
