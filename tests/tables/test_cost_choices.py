"""The cheapest and the most frugal settings of each device, compared by the one rule."""

import pandas as pd
import pytest
import synthetic
from synthetic_energy import metered

from whichdevice.config.hardware import hardware_rows
from whichdevice.config.model import Device, Measure, Study, Workload
from whichdevice.records.schema import Steady
from whichdevice.tables.columns import table
from whichdevice.tables.cost_choices import JOULES, LESS, MORE, USD, cost_choice_table
from whichdevice.tables.decision import SAME, UNDECIDED
from whichdevice.tables.runs import configured_runs
from whichdevice.tables.write import TABLES

NOISE = [0.99, 1.0, 1.01, 1.0]


def study_of(cpu: float | None = 1.0, gpu: float | None = 10.0) -> Study:
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
    found = choices(study_of(), SPEEDS).set_index("device")
    assert (found["quantity"] == USD).all()
    assert found["batch_size"].to_dict() == {"cpu": 1024, "gpu": 1024}
    assert set(found["lowest"]) == {"gpu"}
    assert found.loc["cpu", "ratio"] == pytest.approx(3.0, rel=0.01)
    assert found.loc["cpu", "verdict"] == MORE
    assert pd.isna(found.loc["gpu", "ratio"]) and pd.isna(found.loc["gpu", "verdict"])


def test_the_fastest_device_need_not_be_the_cheapest_nor_the_most_frugal() -> None:
    found = choices(study_of(gpu=100.0), SPEEDS, watts={"cpu": 10.0, "gpu": 1000.0})
    assert found.groupby("quantity")["lowest"].first().to_dict() == {USD: "cpu", JOULES: "cpu"}
    assert LESS not in set(found["verdict"])


def test_equal_costs_are_the_same_and_one_repeat_decides_nothing() -> None:
    found = choices(study_of(gpu=30.0), SPEEDS).set_index("device")
    dearer = found.loc[found["ratio"].notna()].iloc[0]
    assert dearer["verdict"] == SAME
    single = study_of().model_copy(update={"measure": Measure(repeats=1)})
    assert choices(single, SPEEDS).set_index("device").loc["cpu", "verdict"] == UNDECIDED


def test_a_device_without_a_price_takes_no_part() -> None:
    found = choices(study_of(cpu=None), SPEEDS)
    assert found["device"].tolist() == ["gpu"]
    assert choices(study_of(cpu=None, gpu=None), SPEEDS).empty


def test_products_of_different_sizes_are_different_work() -> None:
    study = synthetic.small_study(
        devices={"gpu": Device(kind="gpu", usd_per_hour=1)},
        workloads={"matmul": Workload(batch_size=[512, 1024])},
        measure=Measure(repeats=2),
    )
    found = choices(study, {("gpu", 512): 1e5, ("gpu", 1024): 1e4})
    assert found["batch_size"].tolist() == [512, 1024]
