"""Table `board`: one row for each workload and device, with the evidence, and only numbers that may be compared."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic
from synthetic_forecasts import LARGE, SMALL, compiled, compiled_for

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Workload
from whichdevice.records.schema import Record
from whichdevice.tables.board import COLUMNS

PUBLISHED = Path(__file__).parents[2] / "config" / "published.csv"


def board(folder: Path, compiled_paths: list[Path], speed: Any = None, **settings: Any) -> pd.DataFrame:
    """The board of a study of `mnist_cnn` at batch 256 and 1024; `speed` gives a run's images/s."""

    def change(run: Run, record: Record) -> Record:
        if speed is not None:
            rate = speed(run) * (1 + 0.001 * (run.repeat % 3))
            record = synthetic.slowed(record, (record.steady.throughput or rate) / rate)
        return record

    workloads = {"mnist_cnn": Workload(batch_size=[256, 1024], precision=settings.pop("precision", ["float32"]))}
    study = synthetic.small_study(**({"workloads": workloads, "measure": Measure(repeats=3)} | settings))
    config, paths = synthetic.write_study(study, folder, artefacts=False, change=change)
    return synthetic.Results(config, paths, compiled_paths).board


CPU = {"cpu": Device(kind="cpu")}


def test_measured_devices_come_first_and_all_have_the_batch_size_that_most_of_them_have(tmp_path: Path) -> None:
    found = board(tmp_path, compiled_for(tmp_path / "c", ["T4", "H100 SXM"], batch_size=256), devices=CPU)
    assert list(found["device"]) == ["cpu", "H100 SXM", "T4"]
    assert list(found["evidence"]) == ["measured", "forecast", "forecast"]
    assert set(found["batch"]) == {256}


def test_ratio_and_cost_have_the_interval_of_the_step_time(tmp_path: Path) -> None:
    row = board(tmp_path, compiled_for(tmp_path / "c", ["T4"]), devices=CPU).set_index("device").loc["T4"]
    assert row["baseline"] == "cpu" and row["ratio_low"] < row["ratio"] < row["ratio_high"]
    assert row["throughput"] == pytest.approx(1024 / row["step_ms"] * 1e3, rel=1e-4)
    per_million = row["usd_per_hour"] / 3600 / row["throughput"] * 1e6
    assert row["usd_per_million_examples"] == pytest.approx(per_million, rel=1e-4)
    assert row["usd_high"] / row["usd_low"] == pytest.approx(row["high_ms"] / row["low_ms"], rel=1e-3)


def test_what_does_not_fit_has_no_time(tmp_path: Path) -> None:
    row = board(tmp_path, [compiled(tmp_path / "c", "T4", needed=2e10)], devices=CPU).iloc[1]
    assert (row["evidence"], row["fits"]) == ("does not fit", False)
    assert pd.isna(row["step_ms"]) and pd.isna(row["usd_per_million_examples"])


def test_a_small_step_is_one_that_the_host_decides(tmp_path: Path) -> None:
    small = board(tmp_path / "s", [compiled(tmp_path / "c", "T4", operations=SMALL)], devices=CPU).iloc[1]
    large = board(tmp_path / "l", [compiled(tmp_path / "d", "T4", operations=LARGE)], devices=CPU).iloc[1]
    assert (small["host_decides"], large["host_decides"]) == (True, False)


@pytest.mark.parametrize(("rate", "outside"), [(20_000, False), (200, True)])
def test_a_device_that_was_measured_too_has_its_forecast_and_the_residual_beside_it(
    tmp_path: Path, rate: float, outside: bool
) -> None:
    devices = {"mine": Device(kind="gpu", hardware="T4")}
    paths = [compiled(tmp_path / "c", "T4")]
    found = board(tmp_path, paths, lambda run: rate, devices=devices, precision=["mixed_float16"])
    assert list(found["device"]) == ["mine"]  # no second column for the same device
    row = found.iloc[0]
    assert row["residual"] == pytest.approx(row["step_ms"] / row["forecast_ms"], rel=1e-4)
    assert row["contradicts"] == outside and ("outside its forecast" in str(row["note"])) == outside


def test_another_number_format_is_another_piece_of_work(tmp_path: Path) -> None:
    devices = {"mine": Device(kind="gpu", hardware="T4")}
    found = board(tmp_path, [compiled(tmp_path / "c", "T4")], devices=devices)
    assert list(found["device"]) == ["mine", "T4"] and found["residual"].isna().all()


def test_a_measured_number_with_too_wide_an_interval_is_marked_and_feeds_no_other(tmp_path: Path) -> None:
    paths = compiled_for(tmp_path / "c", ["T4"])
    devices = {"cpu": Device(kind="cpu", usd_per_hour=1.0)}
    found = board(tmp_path, paths, lambda run: [100, 1000, 5000][run.repeat - 1], devices=devices)
    assert found["wide"].iloc[0] and "factor of three" in found["note"].iloc[0]
    assert found["ratio"].isna().all() and pd.isna(found["usd_per_million_examples"].iloc[0])


def test_every_column_is_explained() -> None:
    assert all(column.text for column in COLUMNS.values())
