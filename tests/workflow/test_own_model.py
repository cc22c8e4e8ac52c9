"""The documentation's model file goes from nothing to a report with a forecast, beside files that are broken."""

import csv
import json
import re
import shutil

import pytest
from workloads.test_broken import EXPECTED, FOLDER, NO_PYTHON

from whichdevice.records.products import read_export

pytestmark = pytest.mark.slow

# One that fails before Keras is there, one in training, one that is refused; tests/workloads/test_broken.py has all.
BROKEN = {name: f"broken/{name}.py" for name in ("no_python", "nan_loss", "too_large")}
STUDY = {
    "study": "own",
    "measure": {"seconds": 0.2, "min_steps": 2, "repeats": 1, "retry_disturbed": False, "breakdown": False},
    "train": {"epochs": 1},
    "devices": {"cpu": {"kind": "cpu"}},
    "forecast": {"devices": ["T4"], "workload": ["mine"]},
    "workloads": {
        **{name: {"module": file, "backend": "jax"} for name, file in BROKEN.items()},
        "mine": {"module": "docs/examples/my_model.py", "backend": "jax", "options": {"width": 4}, "export": True},
    },
}


@pytest.fixture(scope="module")
def rows(project) -> dict[str, dict[str, str]]:
    """One row of table `runs` for each workload."""
    shutil.copytree(FOLDER, project.folder / "broken")
    (project.folder / BROKEN["no_python"]).write_text(NO_PYTHON, encoding="utf-8")
    outcome = project.snakemake("all", config=STUDY)
    assert outcome.code == 0, outcome.out
    with (project.folder / "results/own/tables/runs.csv").open(encoding="utf-8") as file:
        return {row["workload"]: row for row in csv.DictReader(file)}


def test_the_example_is_short(project):
    assert len((project.folder / "docs/examples/my_model.py").read_text().splitlines()) < 30


def test_a_file_of_ones_own_is_measured_like_any_workload(rows):
    row = rows["mine"]
    assert row["status"] == "ok"
    assert float(row["flops_per_step"]) > 0 and float(row["throughput"]) > 0
    assert (row["unit"], row["source"], row["learned_epochs"]) == ("image", "generated", "1")


def test_what_the_file_is_told_by_the_config_reaches_it(project, rows):
    record = json.loads(next((project.folder / "results/own/runs/cpu/mine").rglob("record.json")).read_text())
    assert record["asked"]["options"] == {"width": 4}
    assert record["workload"]["parameters"] == 4 * (27 + 1) + 15 * 15 * 4 * 10 + 10


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_a_record_with_one_clear_line_and_the_others_finish(rows, name):
    assert rows[name]["status"] in (("refused", "out_of_memory") if name == "too_large" else ("failed",))
    assert re.search(EXPECTED[name], rows[name]["reason"])


def test_it_gets_a_forecast_for_a_device_that_is_not_here(project, rows):
    with (project.folder / "results/own/tables/forecasts.csv").open(encoding="utf-8") as file:
        (forecast,) = csv.DictReader(file)
    assert (forecast["workload"], forecast["device"], forecast["evidence"]) == ("mine", "T4", "forecast")
    if forecast["status"] == "unavailable":
        pytest.skip(forecast["reason"])
    assert forecast["status"] == "ok"
    assert float(forecast["step_time_low"]) < float(forecast["step_time"]) < float(forecast["step_time_high"])


def test_it_is_in_the_report_with_its_forecast(project, rows):
    text = (project.folder / "results/own/report.md").read_text(encoding="utf-8")
    assert "mine" in text and "T4" in text
    assert "the loss is nan at the first step" in text


def test_its_model_is_exported_with_the_options_of_its_run(project, rows):
    record = read_export(next(project.folder.glob("results/own/models/mine/*/export.json")))
    assert (record.status, record.reason) == ("ok", None)
    assert record.check.examples == 32 and record.check.saved_model <= record.check.tolerance


def test_an_edited_file_is_measured_again_and_nothing_else(project, rows):
    project.edit("docs/examples/my_model.py", "Adam(1e-3)", "Adam(2e-3)")
    planned = project.snakemake("runs", "-n", config=STUDY)
    project.edit("docs/examples/my_model.py", "Adam(2e-3)", "Adam(1e-3)")
    assert planned.jobs["measure"] == 1, planned.out
