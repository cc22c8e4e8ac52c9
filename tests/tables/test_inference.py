"""Predictions and generated tokens in the report; training and inference are never compared."""

from pathlib import Path

import pandas as pd
import pytest
import synthetic

from whichdevice.study.config.model import Device, Workload
from whichdevice.study.report.cells import cell_table
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.comparisons import BEST, DEVICE

PREDICT = Workload(module="mnist_cnn", mode="predict", batch_size=[1, 1024], backend=["tensorflow", "jax"])
GENERATE = Workload(
    module="shakespeare_lstm", mode="generate", batch_size=[1, 32], backend="jax", sequence_length=[100], device=["cpu"]
)


def studied(folder: Path, change=lambda run, record: record, **workloads: Workload) -> StudyResults:
    """A CPU and a GPU that train and predict."""
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu", usd_per_hour=1.0)},
        workloads={"mnist_cnn": Workload(batch_size=[1, 1024]), **workloads},
    )
    return synthetic.results(study, folder, change=change)


def inference(study: StudyResults) -> pd.DataFrame:
    return study.summary[study.summary["mode"].eq("predict").fillna(False) & (study.summary["n_timed"] > 0)]


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> StudyResults:
    return studied(tmp_path_factory.mktemp("predicted"), predicted=PREDICT, generated=GENERATE)


def test_a_record_of_training_is_not_compared_with_one_of_inference_under_the_same_name(tmp_path):
    def trained_on_the_gpu(run, record):
        if run.cell.workload == "predicted" and run.cell.device == "gpu":
            record.asked = record.asked.model_copy(update={"mode": "train"})
        return record

    study = studied(tmp_path, trained_on_the_gpu, predicted=PREDICT)
    pairs = study.comparisons[study.comparisons["workload"] == "predicted"]
    assert len(pairs) and not set(pairs["axis"]) & {DEVICE, BEST}
    assert set(inference(study)["device"]) == {"cpu"}


def test_the_report_shows_latencies_of_predictions_alone(study):
    rows = [row for row in cell_table(study)["rows"] if row.get("latency_p50") is not None]
    assert len(rows) == 8 and {row["workload"] for row in rows} == {"predicted"}
    assert all(row["latency_p99"] is not None for row in rows)


def test_the_report_shows_prompts_and_tokens(study):
    rows = [row for row in cell_table(study)["rows"] if row.get("prefill_time") is not None]
    assert [row["batch_size"].text for row in rows] == ["1", "32"]
    assert all(row["prefill_time"].value.value != row["step_time"].value.value for row in rows)
