"""Rows of an answer from the tables: which forecast stands for a device, what is measured, who asks what price."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from answer.test_printed import tuples
from beside import beside

from whichdevice.base.sheets.hardware import HardwareRow, hardware_rows
from whichdevice.base.sheets.prices import Card, Offer
from whichdevice.decide.rows import AskedWork, Price, Row, works
from whichdevice.forecast.answer import Forecast
from whichdevice.study.tables.base import table
from whichdevice.study.tables.costs import COSTS_COLUMNS, priced_cells
from whichdevice.study.tables.forecasts import COLUMNS, read_forecasts, write_forecasts
from whichdevice.study.tables.summary import SUMMARY_COLUMNS as SUMMARY

BESIDE = beside(__file__)
T4 = Forecast(
    device="T4", devices=1, kind="gpu", workload="net", module="net.py", precision="mixed_float16", batch_size=100,
    mode="train", status="ok", evidence="forecast", step_time=0.04, step_time_low=0.03, step_time_high=0.05,
    throughput=2500.0, unit="image", known_device=True, known_family=True, software="eager", family="convolutions",
    chip="T4", device_time=0.04, log_sd_shared=0.2, log_sd_own=0.1, host_time=0.01, host_log_sd=0.1, fits=True,
    memory_needed=2e9, memory_available=15e9, usd_per_hour=0.35, provider="GCP", price="GCP n1, 2026-01-01",
)  # fmt: skip
L4 = replace(T4, device="L4", chip="L4", step_time=0.03, usd_per_hour=0.7)
SMALL = replace(
    T4, status="does_not_fit", reason="needs 20 GB", fits=False, memory_needed=20e9, weights=8e9, gradients=4e9,
    changes=({"name": "LoRA", "memory_needed": 9e9, "time": 0.5},), context=1e9,
)  # fmt: skip
FAILED = Forecast(device="L4", devices=1, kind="gpu", workload="net", module="net.py", precision="float32",
                  batch_size=100, mode="train", status="unavailable", reason="no compiler")  # fmt: skip
MEASURED = {
    "device": "this_machine", "workload": "net", "module": "net.py", "backend": "torch", "precision": "float32",
    "batch_size": 100, "fraction": 1.0, "kind": "cpu", "replicas": 1, "mode": "train", "status": "ok",
    "n_recorded": 3, "n_timed": 3, "n_disturbed": 0, "n_too_large": 0, "step_time": 0.5, "step_time_low": 0.48,
    "step_time_high": 0.52, "throughput": 200.0, "unit": "image", "evidence": "measured",
}  # fmt: skip


def answered(*forecasts: Forecast, cells: Sequence[dict[str, Any]] = (), **more: Any) -> list[AskedWork]:
    measured = [MEASURED | cell for cell in cells]
    return works(priced_cells(table(measured, SUMMARY), table(measured, COSTS_COLUMNS)), forecasts, **more)


def rows(*forecasts: Forecast, **more: Any) -> dict[str, Row]:
    [work] = answered(*forecasts, **more)
    return {row.device: row for row in work.rows}


@pytest.mark.parametrize("forecast", [T4, SMALL, FAILED, replace(T4, step_notes=("all in bfloat16",))])
def test_a_forecast_is_the_same_after_the_table(forecast: Forecast) -> None:
    frame = write_forecasts([forecast])
    assert list(frame) == list(COLUMNS) and read_forecasts(frame) == [forecast]


NAMED = {"small": SMALL, "failed": FAILED}


def forecast(of: str = "", **changes: Any) -> Forecast:
    """A forecast as rows.yaml has it."""
    return replace(NAMED.get(of, T4), **tuples(changes))


def known_of(row: Row, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def expected(known: dict[str, Any]) -> dict[str, Any]:
    return {name: Price(**value) if name == "price" else value for name, value in tuples(known).items()}


@pytest.mark.parametrize(("rule", "forecasts", "device", "known"), BESIDE["devices"])
def test_the_row_of_a_device(rule: str, forecasts: list[dict[str, Any]], device: str, known: dict[str, Any]) -> None:
    row = rows(*(forecast(**one) for one in forecasts))[device]
    assert known_of(row, known) == expected(known) and row.rented


def test_generation_has_the_time_of_its_prompts_and_both_have_to_fit() -> None:
    decode, prefill = (replace(T4, mode=mode, sequence_length=64) for mode in ("decode", "prefill"))
    [work] = answered(decode, replace(prefill, step_time=2.0, memory_needed=9e9))
    assert (work.mode, work.prompt, work.rows[0].prefill_time, work.rows[0].memory_needed) == ("generate", 32, 2.0, 9e9)
    [unfit] = answered(decode, replace(prefill, fits=False, memory_needed=20e9))
    assert unfit.rows[0].evidence == "does not fit"
    [alone] = answered(decode)
    assert alone.rows[0].prefill_time is None


def test_a_piece_of_work_is_of_the_batch_that_most_devices_have_or_of_each() -> None:
    forecasts = (T4, L4, replace(T4, batch_size=400), replace(T4, workload="other"))
    assert [(work.workload, work.batch) for work in answered(*forecasts)] == [("net", 100), ("other", 100)]
    every = answered(*forecasts, every_batch=True)
    assert [(work.workload, work.batch) for work in every] == [("net", 100), ("net", 400), ("other", 100)]
    lengths = answered(replace(T4, sequence_length=8), T4)
    assert [work.sequence_length for work in lengths] == [8, None]


def test_a_record_that_cannot_be_read_is_no_piece_of_work() -> None:
    assert answered(Forecast(device="L4", reason="unreadable")) == []


SHEET_ROW = HardwareRow(
    device="T4", kind="gpu", power_w=70,
    offers=(
        Offer(provider="GCP", instance="n1", device="T4", count=1, offer="spot", instance_usd_per_hour=0.12,
              date=date(2026, 1, 1), source="gcp"),
        Offer(provider="Colab", instance="notebook", device="T4", count=1, offer="free", instance_usd_per_hour=0.0,
              session_hours=12, date=date(2026, 1, 1), source="colab"),
        Offer(provider="Kaggle", instance="notebook", device="T4", count=1, offer="free", instance_usd_per_hour=0.0,
              session_hours=12, week_hours=30, date=date(2026, 1, 1), source="kaggle"),
    ),
    card=Card(device="T4", usd=900, date=date(2026, 1, 1), source="shop"),
)  # fmt: skip


def test_a_device_has_a_row_for_each_way_it_is_offered() -> None:
    found = rows(T4, sheet={"T4": SHEET_ROW})
    assert list(found) == ["T4", "T4, spot", "T4, free"]
    spot, free = found["T4, spot"], found["T4, free"]
    assert (spot.usd_per_hour, spot.price.provider, spot.spot) == (0.12, "GCP", True)
    assert (free.usd_per_hour, free.price.provider, free.week_hours) == (0.0, "Colab or Kaggle", 30)
    assert free.start_time < found["T4"].start_time and free.card == "T4"
    assert list(rows(replace(T4, devices=2), sheet={"T4": SHEET_ROW})) == ["2 × T4", "2 × T4, spot"]
    assert list(rows(SMALL, sheet={"T4": SHEET_ROW})) == ["T4"]  # no offers of what is too small
    paid = SHEET_ROW.offers[0].model_copy(update={"offer": "on_demand", "instance_usd_per_hour": 0.1})
    dear = SHEET_ROW.model_copy(update={"offers": (SHEET_ROW.offers[0], paid)})
    assert list(rows(T4, sheet={"T4": dear})) == ["T4"]


@pytest.mark.parametrize(("rule", "cell", "known"), BESIDE["measured"])
def test_the_row_of_a_measured_machine(rule: str, cell: dict[str, Any], known: dict[str, Any]) -> None:
    row = rows(cells=[cell])["this machine"]
    assert known_of(row, known) == expected(known) and row.is_here


def test_a_measured_device_has_its_forecast_beside_it() -> None:
    cell = {"device": "mine", "precision": "mixed_float16", "kind": "gpu", "step_time": 0.4,
            "step_time_low": 0.39, "step_time_high": 0.41}  # fmt: skip
    found = rows(T4, cells=[cell], hardware={"mine": "T4"})
    assert list(found) == ["mine"] and found["mine"].forecast_time == 0.04 and found["mine"].contradicts
    other = rows(T4, cells=[cell | {"precision": "float32"}], hardware={"mine": "T4"})
    assert list(other) == ["mine", "T4"] and not other["mine"].contradicts


def test_measured_devices_come_first_and_the_fastest_cell_is_taken() -> None:
    [work] = answered(T4, cells=[{}, {"precision": "bfloat16", "step_time": 0.4}])
    assert [row.device for row in work.rows] == ["this machine", "T4"] and work.rows[0].precision == "bfloat16"
    assert work.here is work.rows[0] and (work.units_per_step, work.unit) == (pytest.approx(80.0), "image")


def test_tables_without_rows_are_no_work() -> None:
    assert answered() == []


def test_a_free_tpu_is_the_slice_that_is_given() -> None:
    one = replace(T4, device="TPU v5e", kind="tpu", slice="v5e-1x1", devices=1)
    eight = replace(one, slice="v5e-2x4", devices=8)
    offered = rows(one, eight, sheet={"TPU v5e": hardware_rows()["TPU v5e"]})
    several = offered["8 × TPU v5e, free"]
    assert (offered["TPU v5e, free"].price.provider, several.price.provider) == ("Colab", "Kaggle")
    assert (several.session_hours, several.week_hours) == (9, 20)
