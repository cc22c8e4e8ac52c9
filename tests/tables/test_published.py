"""Each published figure stands beside as much of the same work here, measured or forecast."""

from pathlib import Path

import pandas as pd
import pytest
import synthetic
from synthetic_forecasts import compiled

from whichdevice.base.errors import StudyError
from whichdevice.measure.record import Steady
from whichdevice.study.config.model import Device, Measure, Train, Workload
from whichdevice.study.tables.base import table
from whichdevice.study.tables.forecasts import write_forecasts
from whichdevice.study.tables.make import TABLES
from whichdevice.study.tables.published import published_table, read_published
from whichdevice.study.tables.runs import configured_runs
from whichdevice.study.tables.summary import summary_table

EPOCH = {
    "source": "somebody", "date": "2018", "device": "TPU v2-8", "device_class": "tpu", "workload": "mnist_cnn",
    "batch_size": "512", "metric": "epoch_time", "value": "3", "unit": "s", "caveat": "", "validation": "no",
}  # fmt: skip
RNN = EPOCH | {
    "workload": "weather_gru", "batch_size": "256", "steps_per_epoch": "10", "sequence_length": "1344", "epochs": "10",
}  # fmt: skip
STEP = EPOCH | {"batch_size": "256", "metric": "step_time", "unit": "ms", "value": "12.8"}
QUALITY = EPOCH | {"batch_size": "256", "metric": "validation_accuracy", "unit": "fraction", "value": "0.99"}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> synthetic.Results:
    """A CPU that measured two models, and a TPU with a forecast of one at two batch sizes."""
    folder = tmp_path_factory.mktemp("study")
    workloads = {
        "mnist_cnn": Workload(batch_size=[1024]),
        "weather_gru": Workload(batch_size=[8], sequence_length=[168]),
    }
    small = synthetic.small_study(devices={"cpu": Device(kind="cpu")}, workloads=workloads)
    config, records = synthetic.write_study(small, folder, artefacts=False)
    programs = [compiled(folder / "compiled", "TPU v5e", batch_size=size) for size in (16, 1024)]
    return synthetic.Results(config, records, programs)


@pytest.mark.parametrize(
    ("figure", "examples", "longer"),
    [
        (EPOCH, 60_000, 1),
        (EPOCH | {"metric": "step_time", "unit": "us/sample", "value": "94"}, 1, 1),
        (EPOCH | {"metric": "step_time", "unit": "ms", "value": "94"}, 512, 1),
        (EPOCH | {"metric": "total_time", "epochs": "20"}, 20 * 60_000, 1),
        (RNN, 256 * 10, 1344 / 168),
        (RNN | {"metric": "wall_time"}, 256 * 10 * 10, 1344 / 168),
    ],
)
def test_a_time_is_of_as_many_examples_of_the_same_length(
    study: synthetic.Results, figure: dict[str, str], examples: float, longer: float
) -> None:
    rows = published_table([figure], study.summary, study.forecasts)
    (row,) = rows[rows["evidence"] == "measured"].to_dict("records")
    cell = study.summary[study.summary["workload"] == figure["workload"]].iloc[0]
    assert row["ours"] == pytest.approx(cell["step_time"] / cell["batch_size"] * examples * longer)
    assert row["ours_low"] < row["ours"] < row["ours_high"]
    assert row["unit"] == "s"


def test_a_forecast_is_taken_at_the_batch_size_nearest_to_theirs(study: synthetic.Results) -> None:
    for batch, nearest in (("512", 1024), ("32", 16)):
        rows = published_table([EPOCH | {"batch_size": batch}], study.summary, study.forecasts)
        (row,) = rows[rows["evidence"] == "forecast"].to_dict("records")
        assert (row["device"], row["kind"], row["batch_size"]) == ("TPU v5e", "tpu", nearest)


@pytest.mark.parametrize(
    "figure",
    [
        EPOCH | {"workload": "mnist_official"},  # which the study does not have
        EPOCH | {"metric": "tpu_init_time"},
        EPOCH | {"metric": "validation_accuracy", "unit": "fraction", "value": "0.98"},  # learned on stand-in data
        RNN | {"steps_per_epoch": ""},  # nobody says how many examples
    ],
)
def test_what_the_study_cannot_say_is_left_empty(study: synthetic.Results, figure: dict[str, str]) -> None:
    (row,) = published_table([figure], study.summary, study.forecasts).to_dict("records")
    assert row["value"] == float(figure["value"])
    assert row["ours"] != row["ours"] and row["published_device"] == "TPU v2-8"


def test_every_figure_of_the_sources_has_a_row(study: synthetic.Results) -> None:
    metrics = {"epoch_time", "step_time", "throughput", "validation_accuracy"}
    assert metrics <= set(study.published["metric"])
    assert study.published["source"].nunique() >= 5


def summary_of(*epochs: int, **workload: object) -> pd.DataFrame:
    """The summary of one CPU cell with a step time of 25.6 ms, whose repeats learned for so many epochs from files."""
    epochs = epochs or (3,)
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")},
        workloads={"own_name": Workload(module="mnist_cnn", batch_size=[256], **workload)},  # type: ignore[arg-type]
        measure=Measure(repeats=len(epochs)),
        train=Train(epochs=max(epochs), repeats=len(epochs)),
    )
    rows = []
    for run, count in zip(configured_runs(study), epochs, strict=True):
        record = synthetic.record_of(study, run, source="files")
        record.steady, record.epochs = Steady(steps=10, seconds=0.256, throughput=10_000), record.epochs[:count]
        rows.append(synthetic.runs_row(record))
    return summary_table(table(rows, TABLES["runs"]))


def row_of(figure: dict[str, str], summary: pd.DataFrame) -> pd.Series:
    """The only row beside one figure where nothing is forecast."""
    (_, row), = published_table([figure], summary, write_forecasts([])).iterrows()
    return row


@pytest.mark.parametrize(
    ("figure", "ours", "ratio"),
    [
        (STEP, 0.0256, 2.0),
        (STEP | {"unit": "us/sample", "value": "50"}, 100e-6, 2.0),
        (STEP | {"metric": "epoch_time", "unit": "s", "value": "3"}, 6.0, 2.0),
    ],
)
def test_published_times_are_in_seconds(figure: dict[str, str], ours: float, ratio: float) -> None:
    row = row_of(figure, summary_of())
    assert (row["ours"], row["ratio"], row["device"]) == (pytest.approx(ours), pytest.approx(ratio), "cpu")
    assert pd.isna(row["note"])


@pytest.mark.parametrize(
    ("figure", "workload", "why"),
    [
        (QUALITY | {"epochs": "10"}, {}, "learned for 3 epochs, published after 10"),
        (QUALITY, {"fraction": [0.1]}, "learned from 0.1 of the training data"),
        (STEP | {"batch_size": "512"}, {}, "at batch size 256, published at 512"),
        (STEP | {"metric": "first_epoch_time", "unit": "s"}, {}, "without the compilation"),
        (STEP | {"status": "disputed"}, {}, "doubtful"),
    ],
)
def test_no_ratio_of_unlike_things(figure: dict[str, str], workload: dict[str, object], why: str) -> None:
    row = row_of(figure, summary_of(**workload))
    assert pd.isna(row["ratio"]) and pd.notna(row["ours"])
    assert why in row["note"]


def test_repeats_that_stopped_early_are_not_taken_for_ones_that_learned_on() -> None:
    figure = QUALITY | {"epochs": "18"}
    early = row_of(figure, summary_of(12, 14, 18))
    assert pd.isna(early["ratio"]) and "learned for 12 to 18 epochs, published after 18" in early["note"]
    assert pd.notna(row_of(figure, summary_of(18, 18))["ratio"])


@pytest.mark.parametrize(
    ("figure", "workload", "note"),
    [
        (STEP, {"precision": ["mixed_bfloat16"]},
         "in mixed_bfloat16; the published number is taken for float32"),
        (STEP | {"precision": "bfloat16"}, {}, "in float32; the published number is in bfloat16"),
        (STEP | {"validation": "yes"}, {}, "without validation, which the published time holds"),
        (STEP | {"validation": ""}, {}, "without validation, which the published time may hold"),
    ],
)  # fmt: skip
def test_what_differs_otherwise_is_said_beside_the_ratio(
    figure: dict[str, str], workload: dict[str, object], note: str
) -> None:
    row = row_of(figure, summary_of(**workload))
    assert pd.notna(row["ratio"]) and row["note"] == note


def test_without_a_published_batch_size_the_best_is_one_with_enough_good_repeats() -> None:
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")}, workloads={"matmul": Workload(batch_size=[512, 1024])},
        measure=Measure(repeats=4),
    )  # fmt: skip
    runs = synthetic.runs_table(study, lambda run: 100.0)
    figure = EPOCH | dict(workload="matmul", batch_size="", metric="throughput", unit="TFLOP/s", value="1")
    for failed, best in ((3, 512), (2, 1024)):
        bad = (runs["batch_size"] == 1024) & (runs["repeat"] <= failed)
        summary = summary_table(runs.assign(status=runs["status"].mask(bad, "failed")))
        assert row_of(figure, summary)["batch_size"] == best


def test_a_figure_that_says_anything_else_of_validation_is_refused(tmp_path: Path) -> None:
    pd.DataFrame([EPOCH | {"validation": "maybe"}]).to_csv(tmp_path / "published.csv", index=False)
    with pytest.raises(StudyError, match="row 1: validation is 'maybe'; write yes, no or nothing"):
        read_published(tmp_path / "published.csv")
