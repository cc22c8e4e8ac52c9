"""Each published figure stands beside as much of the same work here, measured or forecast."""

from pathlib import Path

import pytest
import synthetic
from synthetic_forecasts import compiled

from whichdevice.study.config.model import Device, Workload
from whichdevice.study.tables.claims import claims_table

CLAIM = {
    "source": "somebody", "date": "2018", "device": "TPU v2-8", "device_class": "tpu", "workload": "mnist_cnn",
    "batch_size": "512", "metric": "epoch_time", "value": "3", "unit": "s", "caveat": "",
}  # fmt: skip
RNN = CLAIM | {
    "workload": "weather_gru", "batch_size": "256", "steps_per_epoch": "10", "sequence_length": "1344", "epochs": "10",
}  # fmt: skip


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
    ("claim", "examples", "longer"),
    [
        (CLAIM, 60_000, 1),
        (CLAIM | {"metric": "step_time", "unit": "us/sample", "value": "94"}, 1, 1),
        (CLAIM | {"metric": "step_time", "unit": "ms", "value": "94"}, 512, 1),
        (CLAIM | {"metric": "total_time", "epochs": "20"}, 20 * 60_000, 1),
        (RNN, 256 * 10, 1344 / 168),
        (RNN | {"metric": "wall_time"}, 256 * 10 * 10, 1344 / 168),
    ],
)
def test_a_time_is_of_as_many_examples_of_the_same_length(
    study: synthetic.Results, claim: dict[str, str], examples: float, longer: float
) -> None:
    rows = claims_table([claim], study.summary, study.forecasts)
    (row,) = rows[rows["evidence"] == "measured"].to_dict("records")
    cell = study.summary[study.summary["workload"] == claim["workload"]].iloc[0]
    assert row["ours"] == pytest.approx(cell["step_time"] / cell["batch_size"] * examples * longer)
    assert row["ours_low"] < row["ours"] < row["ours_high"]
    assert row["unit"] == "s"


def test_a_forecast_is_taken_at_the_batch_size_nearest_to_theirs(study: synthetic.Results) -> None:
    for batch, nearest in (("512", 1024), ("32", 16)):
        rows = claims_table([CLAIM | {"batch_size": batch}], study.summary, study.forecasts)
        (row,) = rows[rows["evidence"] == "forecast"].to_dict("records")
        assert (row["device"], row["kind"], row["batch_size"]) == ("TPU v5e", "tpu", nearest)


@pytest.mark.parametrize(
    "claim",
    [
        CLAIM | {"workload": "mnist_official"},  # which the study does not have
        CLAIM | {"metric": "tpu_init_time"},
        CLAIM | {"metric": "validation_accuracy", "unit": "fraction", "value": "0.98"},  # learned on stand-in data
        RNN | {"steps_per_epoch": ""},  # nobody says how many examples
    ],
)
def test_what_the_study_cannot_say_is_left_empty(study: synthetic.Results, claim: dict[str, str]) -> None:
    (row,) = claims_table([claim], study.summary, study.forecasts).to_dict("records")
    assert row["value"] == float(claim["value"])
    assert row["ours"] != row["ours"] and row["published_device"] == "TPU v2-8"


def test_every_claim_of_the_sources_has_a_row(study: synthetic.Results, tmp_path: Path) -> None:
    metrics = {"epoch_time", "step_time", "throughput", "validation_accuracy"}
    assert metrics <= set(study.claims["metric"])
    assert study.claims["source"].nunique() >= 5
