"""Table `serving`, its figure and its section of the report, from made-up records."""

from pathlib import Path

import pandas as pd
import pytest
import synthetic
from synthetic_serving import CLIENTS, serving_study, with_serving

from whichdevice.figures.registry import draw
from whichdevice.figures.results import StudyResults
from whichdevice.records.store import read_record
from whichdevice.report.serving import serving_rows
from whichdevice.tables.columns import read_table
from whichdevice.tables.write import TABLES, write_tables


@pytest.fixture(scope="module")
def study(tmp_path_factory, project_root) -> StudyResults:
    folder = tmp_path_factory.mktemp("served")
    config, records = synthetic.write_study(serving_study(), folder, change=with_serving, artefacts=False)
    write_tables(config, records, project_root / "config" / "published.csv", folder / "tables")
    return StudyResults(config, folder / "tables")


def test_there_is_a_row_for_each_size_of_request_and_number_of_clients(study):
    table = study.serving
    assert table[["batch_size", "clients"]].values.tolist() == [[size, c] for size in (1, 8, 64) for c in CLIENTS]
    assert set(table["n"]) == {3}
    assert set(table["requests"]) == {3000}
    assert (table["evidence"] == "measured").all()


def test_numbers_are_geometric_means_of_the_records_with_intervals(study):
    row = study.serving.iloc[1]
    runs = study.runs[study.runs["batch_size"] == 1]
    loads = [read_record(Path(path)).serving.loads[1] for path in runs["record"]]
    p50 = pd.Series([load.p50 for load in loads])
    assert row["p50"] == pytest.approx(p50.product() ** (1 / 3), rel=1e-5)
    assert row["p50_low"] < row["p50"] < row["p50_high"]
    rate = pd.Series([load.requests / load.seconds for load in loads])
    assert row["requests_per_second"] == pytest.approx(rate.product() ** (1 / 3), rel=1e-5)
    assert row["predictions_per_second"] == pytest.approx(row["requests_per_second"])


def test_every_latency_stands_beside_a_bare_call_and_a_bare_round_trip(study):
    one = study.serving[study.serving["clients"] == 1]
    assert (one["bare_call_p50"] < one["p50"]).all()
    assert (one["bare_http_p50"] < one["p50"]).all()


def test_a_study_without_a_service_has_an_empty_table(tmp_path, project_root):
    config, records = synthetic.write_study(synthetic.small_study(), tmp_path, artefacts=False)
    write_tables(config, records, project_root / "config" / "published.csv", tmp_path / "tables")
    assert read_table(tmp_path / "tables" / "serving.csv", TABLES["serving"]).empty
    assert serving_rows(StudyResults(config, tmp_path / "tables")) == []


def test_the_report_shows_each_row(study):
    rows = serving_rows(study)
    assert [(row["batch_size"], row["clients"]) for row in rows[:3]] == [("1", "1"), ("1", "4"), ("1", "16")]
    assert rows[0]["p50"].endswith("ms")
    assert rows[0]["bare_call"] != "–"


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "gpu")])
def test_the_figure_draws_every_device(tmp_path, project_root, devices):
    config, records = synthetic.write_study(serving_study(devices), tmp_path, change=with_serving, artefacts=False)
    write_tables(config, records, project_root / "config" / "published.csv", tmp_path / "tables")
    draw("serving", tmp_path / "tables", config, tmp_path / "serving.svg", tmp_path / "serving.png")
    text = (tmp_path / "serving.svg").read_text(encoding="utf-8")
    for device in devices:
        assert f"serve_mnist_cnn on {device}" in text
    assert "bare HTTP" in text
