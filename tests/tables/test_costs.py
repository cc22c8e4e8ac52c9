"""Costs of cells, and the choices with the lowest cost, energy or time."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import synthetic
from synthetic_energy import HOST_WATTS, metered

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import PRICES
from whichdevice.measure.record import Energy, Pipeline, PipelineRate, Record, Steady
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Study, Workload
from whichdevice.study.tables.base import table
from whichdevice.study.tables.batch_sizes import OWN_BEST, crossover_table
from whichdevice.study.tables.costs import MORE, USD, cost_choice_table, cost_table, fastest_table
from whichdevice.study.tables.make import TABLES
from whichdevice.study.tables.runs import configured_runs
from whichdevice.study.tables.speedups import speedup_table

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
    config, records = synthetic.write_study(study, tmp_path / "study", artefacts=False)
    row = synthetic.Results(config, records).costs.iloc[0]
    assert row["usd_per_hour"] == 2
    assert row["price"] == "sheet: T4, 1 × 2 USD (Ours rack, cellar, 2026-11-24; own list)"


NOISE = [0.99, 1.0, 1.01, 1.0]


def study_of_cost_choices(cpu: float | None = 1.0, gpu: float | None = 10.0) -> Study:
    return synthetic.small_study(
        devices={"cpu": Device(kind="cpu", usd_per_hour=cpu), "gpu": Device(kind="gpu", usd_per_hour=gpu)},
        measure=Measure(repeats=4),
    )


def choices(study: Study, speeds: dict[tuple[str, int], float], watts: dict[str, float] | None = None) -> pd.DataFrame:
    """Table `cost_choices` where each device and batch size has this throughput, its repeats within a per cent."""
    rows = []
    for run in configured_runs(study):
        record = synthetic.record_of(study, run)
        wobble = NOISE[run.repeat - 1] if run.cell.device == "cpu" else NOISE[-run.repeat]
        speed = speeds[run.cell.device, run.cell.batch_size] * wobble
        record.steady = Steady(steps=10, seconds=2.0, throughput=speed)
        rows.append(synthetic.runs_row(metered(record, watts[run.cell.device]) if watts else record))
    return cost_choice_table(table(rows, TABLES["runs"]), study, hardware_rows())


SPEEDS = {("cpu", 256): 900.0, ("cpu", 1024): 1000.0, ("gpu", 256): 9000.0, ("gpu", 1024): 30_000.0}


def test_of_each_device_its_cheapest_settings_are_compared_with_the_cheapest_device() -> None:
    found = choices(study_of_cost_choices(), SPEEDS).set_index("device")
    assert (found["quantity"] == USD).all()
    assert found["batch_size"].to_dict() == {"cpu": 1024, "gpu": 1024}
    assert set(found["lowest"]) == {"gpu"}
    assert found.loc["cpu", "ratio"] == pytest.approx(3.0, rel=0.01)
    assert found.loc["cpu", "verdict"] == MORE
    assert pd.isna(found.loc["gpu", "ratio"]) and pd.isna(found.loc["gpu", "verdict"])


JITTER = {1: 0.99, 2: 1.0, 3: 1.01, 4: 1.0}


def test_devices_are_compared_on_the_largest_share_of_the_data_that_most_of_them_measured() -> None:
    study = synthetic.small_study(
        workloads={"mnist_cnn": Workload(batch_size=[256], fraction=[0.1, 0.25, 0.5])}, measure=Measure(repeats=3)
    )

    def speed(run: Run) -> float | None:
        failed = run.cell.device == "cpu" and run.cell.fraction == 0.5
        return None if failed else {"cpu": 100.0, "gpu": 900.0}[run.cell.device]

    table = fastest_table(synthetic.runs_table(study, speed)).set_index("device")
    assert table["fraction"].to_dict() == {"cpu": 0.25, "gpu": 0.25}
    assert table.loc["cpu", "ratio"] == pytest.approx(9)


def test_two_models_of_one_name_are_never_compared() -> None:
    study = synthetic.small_study(workloads={"mnist_cnn": Workload(batch_size=[256])}, measure=Measure(repeats=4))
    runs = synthetic.runs_table(study, lambda run: {"cpu": 100.0, "gpu": 900.0}[run.cell.device])
    for alike, other in (
        (True, runs),
        (False, runs.assign(parameters=runs["parameters"].where(runs["kind"] == "cpu", 7))),
    ):
        assert fastest_table(other)["ratio"].notna().any() == alike
        assert (len(speedup_table(other, study)) > 0) == alike
        pairs = crossover_table(other, study)
        assert (len(pairs) > 0) == alike and set(pairs["model"]) <= set(fastest_table(other)["model"])


def test_settings_whose_other_repeats_failed_are_chosen_by_no_table() -> None:
    """One quick repeat of three is no best: it may be lucky, and one pair decides nothing."""
    study = synthetic.small_study(
        workloads={"mnist_cnn": Workload(batch_size=[256, 1024], backend=["jax", "torch"])}, measure=Measure(repeats=3)
    )

    def speed(run: Run) -> float | None:
        quick = run.cell.device == "gpu" and (run.cell.batch_size == 1024 or run.cell.backend == "torch")
        ran_out = quick and run.repeat > 1
        return None if ran_out else {"cpu": 1.0, "gpu": 42.0 if quick else 40.0}[run.cell.device] * JITTER[run.repeat]

    runs = synthetic.runs_table(study, speed)
    table = fastest_table(runs).set_index("device")
    assert (table.loc["gpu", "backend"], table.loc["gpu", "batch_size"], table.loc["gpu", "n_value"]) == ("jax", 256, 3)
    assert (table.loc["cpu", "verdict"], table.loc["cpu", "n"]) == (MORE, 3)
    pairs = crossover_table(runs, study)
    assert pairs.loc[pairs["comparison"] == OWN_BEST, "second_means"].tolist() == ["jax epoch"]
