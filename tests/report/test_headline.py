"""The headline claims what the intervals carry and no more, and every number of it and of the board is in a table."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic
from report_page import page_of
from synthetic_forecasts import compiled_for

from whichdevice.config.model import Device
from whichdevice.numbers import compact
from whichdevice.report.headline import candidates, grid, headline
from whichdevice.tables.base import table
from whichdevice.tables.board import COLUMNS


def row(device: str, step: float, spread: float = 1.05, **settings: Any) -> dict[str, Any]:
    """A row of the board: ms a step with an interval of ×/÷ `spread`; measured where the device is lower case."""
    measured = device.islower()
    ends = {"low_ms": step / spread, "high_ms": step * spread, "throughput": 1e5 / step}
    ends |= {"throughput_low": 1e5 / step / spread, "throughput_high": 1e5 / step * spread}
    known = {"workload": "cnn", "unit": "image", "mode": "train", "batch": 100, "precision": "float32", "n": 3}
    known |= {"kind": "cpu" if device == "cpu" else "gpu", "baseline": "cpu", "host_decides": False, "wide": False}
    ratio = {"ratio": 100 / step, "ratio_low": 100 / step / spread, "ratio_high": 100 / step * spread}
    evidence = "measured" if measured else "forecast"
    return known | ends | ratio | {"device": device, "evidence": evidence, "step_ms": step} | settings


def cost(usd: float, spread: float = 1.05) -> dict[str, float]:
    return {"usd_per_million_examples": usd, "usd_low": usd / spread, "usd_high": usd * spread, "usd_per_hour": usd}


def said(*rows: dict[str, Any], compared: list[str] | None = None) -> str:
    phrases = headline(table(rows, COLUMNS), compared or [])
    return " ".join("".join(part if isinstance(part, str) else part.text for part in phrase) for phrase in phrases)


CPU = row("cpu", 100.0)


def test_with_only_a_cpu_the_forecast_that_lies_apart_is_named_with_its_evidence() -> None:
    told = said(CPU, row("T4", 10.0, 1.4), row("H100", 2.0, 1.4))
    assert told.startswith("Measured: cpu trains cnn at 1,000 images/s [952 – 1,050]. Forecast: H100 is fastest on cnn")
    assert "36 to 70 times as fast as cpu." in told and "T4" not in told


def test_where_intervals_overlap_the_set_is_named() -> None:
    told = said(CPU, row("L4", 3.0, 1.4), row("H100", 2.0, 1.4), row("T4", 10.0, 1.4))
    assert "H100 or L4 is fastest on cnn, whose intervals overlap" in told and "T4" not in told


def test_a_forecast_that_reaches_the_measured_time_wins_nothing() -> None:
    told = said(CPU, row("T4", 90.0, 1.4))
    assert "T4 may be as fast as cpu or faster; intervals overlap." in told and "fastest" not in told
    assert "Forecast: no device of the 1 forecast GPUs is as fast as cpu" in said(CPU, row("T4", 200.0, 1.4))


def test_for_a_small_step_the_host_decides_and_no_device_is_the_fastest() -> None:
    small = {"host_decides": True, "wide": True}
    told = said(CPU, row("T4", 2.0, 3.0, **small, **cost(0.3)), row("H100", 0.5, 3.0, **small, **cost(2.5)))
    assert "on cnn any of the 2 forecast GPUs will do, 17 to 600 times as fast as cpu" in told
    assert "decided by the host" in told and "Lowest rent: T4, USD 0.30 an hour" in told
    assert "fastest" not in told and "Cheapest" not in told


def test_the_cheapest_is_a_set_too_and_says_where_prices_are_missing() -> None:
    rows = [CPU, row("T4", 10.0, 1.4, **cost(0.10, 1.4)), row("H100", 2.0, 1.4, **cost(0.12, 1.4))]
    assert "Cheapest of those with a price: T4 or H100, USD 0.0714 to 0.168 for a million images." in said(*rows)


def test_with_two_measured_devices_the_decision_rule_comes_first() -> None:
    rule = ["gpu is the fastest in the one workload compared."]
    told = said(CPU, row("gpu", 5.0), row("H100", 2.0, 1.4), compared=rule)
    assert told.startswith("Measured: gpu is the fastest in the one workload compared. Forecast: H100 is fastest")
    assert "may be as fast as gpu" in said(CPU, row("gpu", 5.0), row("H100", 4.0, 1.4), compared=rule)


def test_a_measured_device_that_contradicts_its_forecast_is_named() -> None:
    told = said(CPU, row("gpu", 30.0, forecast_ms=10.0, residual=3.0, contradicts=True), row("H100", 2.0, 1.4))
    assert "gpu contradicts its forecast on cnn: measured step time is 3 times the forecast" in told


def test_one_process_gives_no_interval_and_says_so() -> None:
    none = dict.fromkeys(("low_ms", "high_ms", "throughput_low", "throughput_high", "ratio_low", "ratio_high"))
    assert "by one process and so without an interval" in said(CPU | none)


def test_without_a_forecast_or_a_second_device_nothing_is_best() -> None:
    assert "Which device is best cannot be said." in said(CPU)
    assert said() == "Nothing was measured yet, and nothing was forecast."


def test_a_measured_number_with_too_wide_an_interval_is_no_candidate() -> None:
    rows = table([row("cpu", 1.0, 4.0, wide=True), row("T4", 10.0)], COLUMNS)
    assert list(candidates(rows, "step_ms", "low_ms", "high_ms")["device"]) == ["T4"]


def test_other_workloads_are_counted_by_what_holds_there() -> None:
    other = {"workload": "lstm"}
    small = {"host_decides": True}
    told = said(CPU, row("T4", 10.0), CPU | other, row("T4", 1.0, **other, **small))
    assert "Elsewhere: the host decides in lstm." in told


def test_the_board_has_measured_devices_first_and_a_place_for_what_does_not_fit() -> None:
    rows = [CPU, row("T4", 10.0), row("H100", 2.0), row("L4", 5.0, evidence="does not fit", step_ms=None)]
    found = grid(table(rows, COLUMNS))
    assert [column["device"] for column in found["columns"]] == ["cpu", "H100", "T4", "L4"]
    cells = found["rows"][0]["cells"]
    assert [cell["evidence"] for cell in cells] == ["measured", "forecast", "forecast", "does not fit"]
    assert all(cell["speed_interval"] for cell in cells[:3])
    assert [cell["speed_shade"] for cell in cells[:3]] == [0, 100, 59]


@pytest.mark.parametrize(
    ("value", "text"), [(9.01, "9.01"), (3816.8, "3,817"), (179953, "180k"), (2.06e6, "2.06M"), (0.00111, "0.00111")]
)
def test_numbers_of_the_board_are_short(value: float, text: str) -> None:
    assert compact(value) == text


def test_every_number_of_headline_and_board_is_in_a_table(tmp_path: Path) -> None:
    devices = {"cpu": Device(kind="cpu", usd_per_hour=0.2), "gpu": Device(kind="gpu", hardware="T4")}
    paths = compiled_for(tmp_path / "compiled", ["T4", "L4", "H100 SXM"])
    page = page_of(synthetic.small_study(devices=devices), tmp_path, compiled=paths)
    known = set()
    for path in (tmp_path / "tables").glob("*.csv"):
        for _, column in pd.read_csv(path).select_dtypes("number").items():
            known |= {float(f"{value:.6g}") for value in column.dropna()}
    numbers = page.numbers["answer"]
    assert len(numbers) > 40
    assert [each for each in numbers if each[0] not in known] == []
