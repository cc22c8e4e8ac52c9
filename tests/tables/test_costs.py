"""Money and energy of measured cells."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import synthetic
from synthetic_energy import HOST_WATTS, metered

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import PRICES
from whichdevice.decide.measured import cell_of
from whichdevice.measure.record import Energy, Pipeline, PipelineRate, Record, Steady
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Study
from whichdevice.study.tables.base import table
from whichdevice.study.tables.costs import cost_table, priced_cells
from whichdevice.study.tables.make import TABLES
from whichdevice.study.tables.runs import configured_runs

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


def test_what_the_meter_sees_between_windows_counts() -> None:
    def gaps(run: Run, record: Record) -> Record:
        metered(record)
        for energy in (record.energy, *record.energy.beside.values()):
            part = energy.parts["steady"]
            part.joules, part.seconds = 1.2 * part.joules, 1.25 * part.seconds  # less power while nothing is timed
        return record

    costs = costs_of(study_of(), gaps)
    assert costs.loc["gpu", "joules_per_million"] == pytest.approx(1.2 * 400 / 20_000 * 1e6)
    assert costs.loc["gpu", "host_joules_per_million"] == pytest.approx(1.2 * HOST_WATTS / 20_000 * 1e6)


def test_a_host_has_its_joules_where_the_device_has_no_meter() -> None:
    def host_alone(run: Run, record: Record) -> Record:
        record = metered(record)
        record.energy = Energy(reason="no meter: a TPU has no counters", beside=record.energy.beside)
        return record

    row = costs_of(study_of(), host_alone).loc["gpu"]
    assert row["host_joules_per_million"] == pytest.approx(HOST_WATTS / 20_000 * 1e6)
    assert pd.isna(row["joules_per_million"]) and row["meter"] == "no meter: a TPU has no counters"


def test_an_input_pipeline_is_compared_with_the_step_that_it_feeds() -> None:
    """A step of 1,024 examples takes 0.2 s; two workers give 2,048 examples a second: 2.5 times as long."""

    def fed(run: Run, record: Record) -> Record:
        rates = [PipelineRate(workers=each, examples_per_second=1024.0 * each, first_seconds=0.1) for each in (1, 2)]
        record.pipeline = Pipeline(origin="own", rates=rates)
        return record

    costs = costs_of(study_of(), fed)
    assert costs.loc["cpu", ["pipeline", "pipeline_time", "pipeline_share"]].tolist() == [
        "own",
        0.5,
        pytest.approx(2.5),
    ]
    assert costs_of(study_of())["pipeline_share"].isna().all()


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
    mine.write_text(f"{header}\nOurs,rack,T4,4,cellar,on_demand,8,,,2026-11-24,own list\n", encoding="utf-8")
    study = study_of(gpu=Device(kind="gpu", hardware="T4"))
    study.prices = str(mine)
    row = synthetic.results(study, tmp_path / "study").costs.iloc[0]
    assert row["usd_per_hour"] == 2
    assert row["price"] == "sheet: T4, 1 × 2 USD (Ours rack, cellar, 2026-11-24; own list)"


def test_ask_reads_of_records_what_the_tables_of_a_study_say(tmp_path: Path) -> None:
    """They had two forms and two ways."""
    study = synthetic.small_study(devices={"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")})
    records: dict[str, list[Record]] = {}

    def keep(run: Run, record: Record) -> Record:
        record = metered(record) or record
        records.setdefault(run.cell.path, []).append(record)
        return record

    results = synthetic.results(study, tmp_path, change=keep)
    of_study = priced_cells(results.summary, results.costs)
    assert len(of_study) == len(records) > 3
    for cell in of_study:
        runs = records[f"{cell.device}/{cell.workload}/{cell.backend}-{cell.precision}-b{cell.batch_size}"]
        of_ask = replace(cell_of(runs), usd_per_hour=cell.usd_per_hour, price=cell.price)
        for name, value in vars(cell).items():
            close = pytest.approx(value, rel=1e-4) if isinstance(value, float) else value
            assert getattr(of_ask, name) == close, name
