"""Predictions in table `summary` and in the report; training and inference are never compared."""

from pathlib import Path

import pandas as pd
import pytest
import synthetic

from whichdevice.study.config.model import Device, Workload
from whichdevice.study.report.cells import cell_table
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.comparisons import BEST, DEVICE

PREDICT = Workload(module="mnist_cnn", mode="predict", batch_size=[1, 1024], backend=["tensorflow", "jax"])


def studied(folder: Path, project_root: Path, change=lambda run, record: record, **workloads: Workload) -> StudyResults:
    """A CPU and a GPU that train and predict."""
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu", usd_per_hour=1.0)},
        workloads={"mnist_cnn": Workload(batch_size=[1, 1024]), **workloads},
    )
    config, records = synthetic.write_study(study, folder, change=change, artefacts=False)
    return synthetic.Results(config, records)


def inference(study: StudyResults) -> pd.DataFrame:
    return study.summary[study.summary["mode"].eq("predict").fillna(False) & (study.summary["n_timed"] > 0)]


@pytest.fixture(scope="module")
def study(tmp_path_factory, project_root) -> StudyResults:
    return studied(tmp_path_factory.mktemp("predicted"), project_root, predicted=PREDICT)


def test_a_record_of_training_is_not_compared_with_one_of_inference_under_the_same_name(tmp_path, project_root):
    def trained_on_the_gpu(run, record):
        if run.cell.workload == "predicted" and run.cell.device == "gpu":
            record.asked = record.asked.model_copy(update={"mode": "train"})
        return record

    study = studied(tmp_path, project_root, trained_on_the_gpu, predicted=PREDICT)
    pairs = study.comparisons[study.comparisons["workload"] == "predicted"]
    assert len(pairs) and not set(pairs["axis"]) & {DEVICE, BEST}
    assert set(inference(study)["device"]) == {"cpu"}


def test_the_report_shows_latencies_of_predictions_alone(study):
    rows = [row for row in cell_table(study)["rows"] if row.get("latency_p50") is not None]
    assert len(rows) == 8 and {row["workload"] for row in rows} == {"predicted"}
    assert all(row["latency_p99"] is not None for row in rows)
