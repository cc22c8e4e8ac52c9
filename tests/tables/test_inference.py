"""Predictions in table `summary` and in the report; training and inference are never compared."""

from pathlib import Path

import pandas as pd
import pytest
import synthetic

from whichdevice.config.model import Device, Workload
from whichdevice.records.store import read_record
from whichdevice.report.contents import inference_rows
from whichdevice.results import StudyResults

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


def test_each_cell_that_predicts_is_a_row(study):
    table = inference(study)
    cells = [
        (device, backend, size) for device in ("cpu", "gpu") for backend in ("tensorflow", "jax") for size in (1, 1024)
    ]
    assert sorted(table[["device", "backend", "batch_size"]].itertuples(index=False, name=None)) == sorted(cells)
    assert set(table["workload"]) == {"predicted"} and set(table["n_timed"]) == {2}


def test_latencies_are_geometric_means_of_the_records_in_milliseconds(study):
    row = inference(study).iloc[0]
    runs = study.runs[(study.runs["workload"] == "predicted") & (study.runs["backend"] == "tensorflow")]
    runs = runs[(runs["device"] == "cpu") & (runs["batch_size"] == 1)]
    found = pd.DataFrame([read_record(Path(path)).latency.model_dump() for path in runs["record"]])
    for name in ("p50", "p99"):
        assert row[f"latency_{name}"] == pytest.approx(1e3 * found[name].product() ** 0.5, rel=1e-5)
    assert row["latency_p50_low"] < row["latency_p50"] < row["latency_p50_high"]
    assert row["latency_p50"] < row["latency_p99"]


def test_records_and_tables_name_the_mode(study):
    modes = study.summary.drop_duplicates("workload").set_index("workload")["mode"].to_dict()
    assert modes == {"mnist_cnn": "train", "predicted": "predict"}
    assert study.summary["latency_p50"].notna().equals(study.summary["mode"] == "predict")


def test_devices_are_compared_on_predictions(study):
    ratios = study.speedups[(study.speedups["workload"] == "predicted") & (study.speedups["comparison"] == "device")]
    assert len(ratios) == 4 and set(ratios["compared"]) == {"gpu"}
    assert "predicted" in set(study.crossover["workload"]) & set(study.fastest["workload"])
    assert study.costs.loc[study.costs["workload"] == "predicted", "unit"].eq("prediction").all()


def test_a_record_of_training_is_not_compared_with_one_of_inference_under_the_same_name(tmp_path, project_root):
    def trained_on_the_gpu(run, record):
        if run.cell.workload == "predicted" and run.cell.device == "gpu":
            record.asked = record.asked.model_copy(update={"mode": "train"})
        return record

    study = studied(tmp_path, project_root, trained_on_the_gpu, predicted=PREDICT)
    for table in (study.speedups[study.speedups["comparison"] == "device"], study.crossover, study.cost_choices):
        judged = table[(table["workload"] == "predicted") & table["verdict"].notna()]
        assert judged.empty
    assert set(inference(study)["device"]) == {"cpu"}


def test_published_training_figures_stand_beside_no_prediction(study):
    assert "predicted" not in set(study.published["workload"].dropna())
    assert "mnist_cnn" in set(study.published["workload"].dropna())


def test_the_report_shows_inference_where_there_is_some(study, tmp_path, project_root):
    rows = inference_rows(study)
    assert len(rows) == 8 and all(row["p50"] != "–" and row["p99"] != "–" for row in rows)
    assert inference_rows(studied(tmp_path, project_root)) == []


def test_too_few_calls_have_no_99th_percentile(tmp_path, project_root):
    def few(run, record):
        if record.latency is not None:
            record.latency = record.latency.model_copy(update={"calls": 60, "p99": None})
        return record

    study = studied(tmp_path, project_root, few, predicted=PREDICT)
    assert inference(study)["latency_p99"].isna().all() and inference(study)["latency_p50"].notna().all()
    assert {row["p99"] for row in inference_rows(study)} == {"–"}
