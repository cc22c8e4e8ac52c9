"""Published figures are read and set beside measured cells."""

from pathlib import Path

import pandas as pd
import pytest
import synthetic

from whichdevice.base.errors import StudyError
from whichdevice.measure.record import Steady
from whichdevice.study.config.model import Device, Measure, Train, Workload
from whichdevice.study.tables.base import table
from whichdevice.study.tables.make import TABLES
from whichdevice.study.tables.published import published_table, read_published
from whichdevice.study.tables.runs import configured_runs
from whichdevice.study.tables.summary import summary_table


def claim_published(**changes: str) -> dict[str, str]:
    """A published figure."""
    entry = {
        "source": "Someone", "date": "2020", "device": "TPU v2-8", "device_class": "tpu", "workload": "mnist_cnn",
        "batch_size": "256", "metric": "step_time", "value": "50", "unit": "us/sample", "caveat": "", "epochs": "",
        "steps_per_epoch": "", "sequence_length": "", "status": "as published", "validation": "no",
    }  # fmt: skip
    return entry | changes


def summary_of(**workload: object) -> pd.DataFrame:
    """The summary of one CPU cell with a step time of 25.6 ms, learned for three epochs from files."""
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")},
        workloads={"own_name": Workload(module="mnist_cnn", batch_size=[256], **workload)},  # type: ignore[arg-type]
        measure=Measure(repeats=1),
        train=Train(epochs=3),
    )
    record = synthetic.record_of(study, configured_runs(study)[0], source="files")
    record.steady = Steady(steps=10, seconds=0.256, throughput=10_000)
    return summary_table(table([synthetic.runs_row(record)], TABLES["runs"]))


def test_published_units_are_converted() -> None:
    found = published_table([claim_published(), claim_published(unit="ms", value="12.8")], summary_of())
    assert found["measured"].tolist() == pytest.approx([100.0, 25.6])
    assert found["ratio"].tolist() == pytest.approx([2.0, 2.0])
    assert found["device"].tolist() == ["cpu", "cpu"]


@pytest.mark.parametrize(
    ("entry", "workload", "why"),
    [
        (
            claim_published(metric="validation_accuracy", unit="fraction", value=".99", epochs="10"),
            {},
            "learned for 3 epochs",
        ),
        (
            claim_published(metric="epoch_time", unit="s", value="5"),
            {"fraction": [0.1]},
            "10 %|0.1 of the training data",
        ),
        (claim_published(metric="epoch_time", unit="s", value="5", steps_per_epoch="100"), {}, "234 steps per epoch"),
        (claim_published(status="disputed"), {}, "doubtful"),
    ],
)
def test_no_ratio_of_unlike_things(entry: dict[str, str], workload: dict[str, object], why: str) -> None:
    row = published_table([entry], summary_of(**workload)).iloc[0]
    assert pd.isna(row["ratio"])
    assert pd.notna(row["measured"])
    assert any(part in row["note"] for part in why.split("|"))


def learned_for(*epochs: int) -> pd.DataFrame:
    """The summary of one cell whose repeats learned for so many epochs."""
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")}, workloads={"mnist_cnn": Workload(batch_size=[256])},
        measure=Measure(repeats=len(epochs)), train=Train(epochs=max(epochs), repeats=len(epochs)),
    )  # fmt: skip
    rows = []
    for run, count in zip(configured_runs(study), epochs, strict=True):
        record = synthetic.record_of(study, run, source="files")
        record.epochs = record.epochs[:count]
        rows.append(synthetic.runs_row(record))
    return summary_table(table(rows, TABLES["runs"]))


def test_repeats_that_stopped_early_are_not_taken_for_ones_that_learned_on() -> None:
    entry = claim_published(metric="wall_time", unit="s", value="100", epochs="18")
    early = learned_for(12, 14, 18)
    assert (early["fewest_epochs"].item(), early["learned_epochs"].item()) == (12, 18)
    row = published_table([entry], early).iloc[0]
    assert pd.isna(row["ratio"]) and "learned for 12 to 18 epochs, published after 18" in row["note"]
    assert pd.notna(published_table([entry], learned_for(18, 18)).iloc[0]["ratio"])


def test_another_number_format_than_the_published_is_said_beside_the_ratio() -> None:
    entry = claim_published(unit="ms", value="12.8")
    row = published_table([entry], summary_of(precision=["mixed_bfloat16"])).iloc[0]
    assert "measured in mixed_bfloat16; the published number is taken for float32" in row["note"]
    row = published_table([entry | {"precision": "bfloat16"}], summary_of()).iloc[0]
    assert row["note"] == "measured in float32; the published number is in bfloat16"
    assert pd.isna(published_table([entry], summary_of()).iloc[0]["note"])


def test_a_published_epoch_with_validation_stands_beside_one_with_validation() -> None:
    entry = claim_published(metric="epoch_time", unit="s", value="5")
    found = published_table([entry, entry | {"validation": "yes"}], summary := learned_for(3))
    cell = summary.iloc[0]
    assert found["measured"].tolist() == pytest.approx(
        [cell["learned_epoch_time"], cell["learned_epoch_time"] + cell["validation_time"]]
    )
    assert not found["note"].str.contains("validation").any()


@pytest.mark.parametrize(
    ("validation", "metric", "unit", "told"),
    [
        ("yes", "step_time", "ms", "without validation, which the published time holds"),
        ("", "epoch_time", "s", "without validation, which the published time may hold"),
        ("no", "wall_time", "s", "with validation, which the published time does not hold"),
        ("", "wall_time", "s", "with validation, which the published time may not hold"),
    ],
)
def test_where_one_time_alone_holds_validation_it_is_said(validation: str, metric: str, unit: str, told: str) -> None:
    entry = claim_published(metric=metric, unit=unit, value="5", validation=validation)
    assert published_table([entry], learned_for(3)).iloc[0]["note"].endswith(told)


def test_without_a_published_batch_size_the_best_is_one_with_enough_good_repeats() -> None:
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")}, workloads={"matmul": Workload(batch_size=[512, 1024])},
        measure=Measure(repeats=4),
    )  # fmt: skip
    runs = synthetic.runs_table(study, lambda run: 100.0)
    entry = claim_published(workload="matmul", batch_size="", metric="throughput", unit="TFLOP/s", value="1")
    for failed, best in ((3, 512), (2, 1024)):
        bad = (runs["batch_size"] == 1024) & (runs["repeat"] <= failed)
        summary = summary_table(runs.assign(status=runs["status"].mask(bad, "failed")))
        assert published_table([entry], summary)["batch_size"].tolist() == [best]


def test_a_claim_that_says_anything_else_of_validation_is_refused(tmp_path: Path) -> None:
    pd.DataFrame([claim_published(validation="maybe")]).to_csv(tmp_path / "published.csv", index=False)
    with pytest.raises(StudyError, match="row 1: validation is 'maybe'; write yes, no or nothing"):
        read_published(tmp_path / "published.csv")
