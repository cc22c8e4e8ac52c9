"""Money and energy of a million examples, and the reason where a price or a meter is missing."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import synthetic
from synthetic_energy import HOST_WATTS, metered

from whichdevice.cells import Run
from whichdevice.config.hardware import HARDWARE, PRICES, hardware_rows
from whichdevice.config.model import Device, Study
from whichdevice.records.schema import Energy, Record, Steady
from whichdevice.tables.columns import read_table, table
from whichdevice.tables.costs import cost_table
from whichdevice.tables.runs import configured_runs
from whichdevice.tables.write import TABLES, write_tables

SPEED = {"cpu": 1000.0, "gpu": 20_000.0}


def study_of(**devices: Device) -> Study:
    return synthetic.small_study(devices=devices or {"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")})


def runs_of(study: Study, change: Callable[[Run, Record], Record] = lambda run, record: record) -> pd.DataFrame:
    rows = []
    for run in configured_runs(study):
        record = synthetic.record_of(study, run)
        speed = SPEED[record.asked.kind]
        record.steady = Steady(steps=10, seconds=2.0, throughput=speed)
        rows.append(synthetic.runs_row(change(run, record)))
    return table(rows, TABLES["runs"])


def costs_of(study: Study, *change: Callable[[Run, Record], Record]) -> pd.DataFrame:
    found = cost_table(runs_of(study, *change), study, hardware_rows())
    return found[found["batch_size"] == 1024].set_index("device")


def test_money_is_time_at_the_price_of_the_whole_device() -> None:
    costs = costs_of(study_of(cpu=Device(kind="cpu", usd_per_hour=0.36), gpu=Device(kind="gpu", usd_per_hour=7.2)))
    assert costs.loc["cpu", "usd_per_million"] == pytest.approx(0.36 / 3600 * 1e6 / 1000)
    assert costs.loc["gpu", "usd_per_million"] == pytest.approx(7.2 / 3600 * 1e6 / 20_000)
    assert costs.loc["gpu", "price"] == "config: devices.gpu.usd_per_hour"


def test_without_a_price_there_is_no_cost() -> None:
    costs = costs_of(study_of())
    assert costs["usd_per_million"].isna().all()
    assert costs.loc["cpu", "price"] == "no price: set devices.cpu.usd_per_hour"


def test_what_the_meter_sees_between_windows_counts_and_is_told() -> None:
    def gaps(run: Run, record: Record) -> Record:
        metered(record)
        for energy in (record.energy, *record.energy.beside.values()):
            part = energy.parts["steady"]
            part.joules, part.seconds = 1.2 * part.joules, 1.25 * part.seconds  # less power while nothing is timed
        return record

    costs = costs_of(study_of(), gaps)
    assert costs.loc["gpu", "joules_per_million"] == pytest.approx(1.2 * 400 / 20_000 * 1e6)
    assert costs.loc["gpu", "host_joules_per_million"] == pytest.approx(1.2 * HOST_WATTS / 20_000 * 1e6)
    assert costs.loc["gpu", "joules_between"] == pytest.approx(0.2)


def test_energy_is_what_the_meter_counted_over_the_examples_of_the_steady_windows() -> None:
    costs = costs_of(study_of(), lambda run, record: metered(record))
    assert costs.loc["cpu", "watts"] == pytest.approx(100)
    assert costs.loc["cpu", "joules_per_million"] == pytest.approx(100 / 1000 * 1e6)
    assert costs.loc["gpu", "joules_per_million"] == pytest.approx(400 / 20_000 * 1e6)
    assert costs.loc["gpu", "host_joules_per_million"] == pytest.approx(HOST_WATTS / 20_000 * 1e6)
    assert pd.isna(costs.loc["cpu", "host_joules_per_million"])
    assert costs.loc["gpu", "joules_blur"] == pytest.approx(0.1 / 2.0)
    assert (costs["joules_between"] == 0).all()
    assert (costs["n_metered"] == 2).all()


def test_a_host_has_its_joules_where_the_device_has_no_meter() -> None:
    def host_alone(run: Run, record: Record) -> Record:
        record = metered(record)
        record.energy = Energy(reason="no meter: a TPU has no counters", beside=record.energy.beside)
        return record

    row = costs_of(study_of(), host_alone).loc["gpu"]
    assert row["host_joules_per_million"] == pytest.approx(HOST_WATTS / 20_000 * 1e6)
    assert pd.isna(row["joules_per_million"]) and row["meter"] == "no meter: a TPU has no counters"


def test_the_whole_runs_joules_are_never_taken_for_those_of_steady_state() -> None:
    def whole(run: Run, record: Record) -> Record:
        record.energy = Energy(joules=5000.0, meter="RAPL of 1 processor package")  # a record of an earlier version
        return record

    costs = costs_of(study_of(), whole)
    assert costs["joules_per_million"].isna().all()
    assert costs.loc["cpu", "meter"] == "no meter: it was not read around the steady windows"


def test_without_a_meter_its_reason_stands_there() -> None:
    def none(run: Run, record: Record) -> Record:
        record.energy = Energy(reason="no meter: RAPL is hidden from this container")
        return record

    costs = costs_of(study_of(), none)
    assert (costs["meter"] == "no meter: RAPL is hidden from this container").all()
    assert (costs["n_metered"] == 0).all()


def test_intervals_come_from_the_spread_of_processes() -> None:
    def slower(run: Run, record: Record) -> Record:
        assert record.steady.throughput is not None
        record.steady.throughput /= run.repeat  # 1 and 2 times as long
        return metered(record)

    row = costs_of(study_of(cpu=Device(kind="cpu", usd_per_hour=3.6)), slower).loc["cpu"]
    assert row["usd_per_million"] == pytest.approx(2**0.5)
    assert row["usd_per_million_low"] < 1 < 2 < row["usd_per_million_high"]
    assert row["joules_per_million_high"] / row["joules_per_million"] == pytest.approx(
        row["usd_per_million_high"] / row["usd_per_million"]
    )


def test_failed_and_unmeasured_runs_cost_nothing() -> None:
    study = study_of(cpu=Device(kind="cpu", usd_per_hour=1))

    def failing(run: Run, record: Record) -> Record:
        return synthetic.failed_record(study, run) if run.repeat == 2 else record

    assert (costs_of(study, failing)["n"] == 1).all()
    nothing = cost_table(runs_of(study).head(0), study, hardware_rows())
    assert nothing.empty and list(nothing.columns) == list(TABLES["costs"])


def test_a_meter_that_failed_in_one_repeat_does_not_hide_that_others_were_read() -> None:
    def first_unread(run: Run, record: Record) -> Record:
        if run.repeat > 1:
            return metered(record)
        record.energy = Energy(reason="no meter: NVML: no answer")
        return record

    costs = costs_of(study_of(), first_unread)
    assert (costs["n_metered"] == 1).all()
    assert not costs["meter"].str.startswith("no meter").any()


def test_the_tables_take_prices_from_the_sheet_that_the_config_names(tmp_path: Path) -> None:
    header = PRICES.read_text(encoding="utf-8").splitlines()[0]
    mine = tmp_path / "mine.csv"
    mine.write_text(f"{header}\nOurs,rack,T4,4,cellar,8,,2026-11-24,own list\n", encoding="utf-8")
    study = study_of(gpu=Device(kind="gpu", hardware="T4"))
    study.prices = str(mine)
    config, records = synthetic.write_study(study, tmp_path / "study", artefacts=False)
    write_tables(config, records, HARDWARE.with_name("published.csv"), tmp_path / "tables")
    row = read_table(tmp_path / "tables/costs.csv", TABLES["costs"]).iloc[0]
    assert row["usd_per_hour"] == 2
    assert row["price"] == "sheet: T4, 1 × 2 USD (Ours rack, cellar, 2026-11-24; own list)"
