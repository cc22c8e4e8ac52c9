"""Which models a call exports, what is forecast alone, and what tables and page are drawn by."""

import re
import shutil
from pathlib import Path

import pytest
import synthetic

from whichdevice.base.files import CONFIG, HERE
from whichdevice.study.config.model import Study
from whichdevice.study.planning.products import drawing_code, export_inputs, exported_models, other_learned
from whichdevice.study.programs import program_requests
from whichdevice.study.records.store import write_record

CNN = {"mnist_cnn": {"batch_size": [256, 512], "export": True}, "mnist_official": {"batch_size": [64], "export": True}}
PATH = r"results/planned/models/(\w+)/[0-9a-f]{12}/export\.json"


@pytest.fixture
def learning(plan):
    return lambda **changes: plan(workloads=CNN, only={"device": "cpu", **changes.pop("only", {})}, **changes)


def names(paths: list[str]) -> list[str]:
    return [re.fullmatch(PATH, path)[1] for path in paths]


def test_an_export_needs_the_runs_that_learn(learning):
    planned = learning()
    assert names(exported_models(planned)) == ["mnist_cnn", "mnist_official"]
    assert [Path(path).parts[-3] for path in export_inputs(planned, "mnist_cnn")] == ["r1", "r1"]


def test_records_that_a_call_does_not_bring_about_count_too(learning):
    planned = learning()
    both = export_inputs(planned, "mnist_cnn")
    for run in planned.runs:
        write_record(synthetic.record_of(planned.study, run), Path(planned.record(run)))
    narrowed = learning(only={"batch_size": [256]})
    assert set(other_learned(narrowed, "mnist_cnn")) > set(both) - set(export_inputs(narrowed, "mnist_cnn"))


def test_a_workload_without_a_device_is_forecast_and_not_measured(plan):
    large = {"resnet50": {"device": []}, "decoder": {"device": []}}
    planned = plan(workloads={"matmul": {"batch_size": [64]}, **large}, forecast={"devices": ["T4"]})
    assert {run.cell.workload for run in planned.runs} == {"matmul"}
    assert {request.workload for request in program_requests(planned.study)} == {"matmul", *large}
    assert large.keys() <= {name for name, each in Study().workloads.items() if each.device == []}


def copied(folder: Path) -> tuple[Path, Path]:
    """Copies of what of package and config is no code."""
    places = folder / "package", folder / "config"
    for source, place in zip((HERE, CONFIG), places, strict=True):
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("*.py", "*.yaml", "__pycache__", "workflow"))
    return places


def test_tables_and_page_are_drawn_anew_after_a_change_of_any_sheet_constants_or_template(tmp_path):
    before = drawing_code(Study(), *copied(tmp_path / "before"))
    files = [path.relative_to(tmp_path / "before") for path in (tmp_path / "before").rglob("*") if path.is_file()]
    known = {"constants.json", "lived.json", "energy.json", "measured_rates.csv", "machines.csv", "style.css"}
    assert known < {path.name for path in files}
    for place, path in enumerate(files):
        folder = tmp_path / str(place)
        folders = copied(folder)
        with (folder / path).open("ab") as file:
            file.write(b" ")
        after = drawing_code(Study(), *folders)
        expected = {"report"} if "report" in path.parts else set(before)
        assert {name for name in before if after[name] != before[name]} == expected, path
