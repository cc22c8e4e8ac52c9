"""What a hurried person gets wrong: one clear line, no traceback, non-zero exit, nothing half-written."""

import re

import pytest
import synthetic
from faults.small_disk import WORDS, fill, small_disk

from whichdevice.config.load import load_study, resolved, write_study
from whichdevice.errors import StudyError
from whichdevice.measuring.request import planned_record
from whichdevice.planning.study_plan import plan_study
from whichdevice.records.store import write_record
from whichdevice.study_cells import study_runs

pytestmark = pytest.mark.slow

SMALL = {
    "study": "errors",
    "data": {"source": "standin"},
    "measure": {"repeats": 1},
    "workloads": {"mnist_cnn": {"batch_size": [256]}},
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"measure": {"secnds": 1}}, "measure.seconds"),
        ({"workloads": {"mnist_cn": {}}}, "mnist_cnn"),
        ({"workloads": {"mnist_cnn": {"batch_size": [-1]}}}, "batch_size"),
        ({"run_on": ["cpuu"]}, "cpu"),
        ({"only": {"device": "cpuu"}}, "cpu"),
        ({"measure": {"seconds": "long"}}, "measure.seconds"),
        (
            {"workloads": {"mnist_cnn": {"backend": ["theano"]}}},
            "workloads.mnist_cnn.backend: 'theano' is not known",
        ),
        ({"devices": {"cpu": {"kind": "cpu", "hardware": "TPU v22"}}}, "nearest: TPU v2"),
        ({"workloads": {"mnist_cnn": {"loop": ["fitt"]}}}, "workloads.mnist_cnn.loop: 'fitt' is not known"),
    ],
    ids=["key", "workload", "negative batch", "device", "only", "type", "backend", "hardware", "loop"],
)
def test_a_wrong_config_names_the_place_and_the_nearest_right_thing(working_folder, change, expected):
    with pytest.raises(StudyError, match=re.escape(expected)) as error:
        plan_study({**SMALL, **change})
    assert "\n" not in str(error.value)
    assert not list(working_folder.iterdir())


def test_an_error_of_the_planner_is_one_line_of_the_call_and_makes_no_folder(project):
    done = project.snakemake("-n", "all", config={**SMALL, "measure": {"secnds": 1}})
    assert done.code != 0
    assert "measure.seconds" in done.error
    assert not (project.folder / "results" / "errors").exists()


def test_a_file_named_on_the_command_line_that_does_not_parse_shows_no_traceback(project):
    (project.folder / "study.yaml").write_text("study: errors\nmeasure: {seconds: 1\n", encoding="utf-8")
    done = project.snakemake("-n", "all")  # Snakemake reads this file itself, before any of our code
    assert done.code != 0
    assert "Traceback" not in done.out
    assert "not valid JSON or YAML" in done.out


def test_a_full_disk_is_one_clear_line_and_leaves_no_half_table(project):
    """Runs, figures and pages on a full disk are in tests/faults."""
    config = {**SMALL, "study": "full", "workloads": {"matmul": {"batch_size": [64]}}}
    study = resolved(load_study({"forecast": {"devices": []}, **config}))
    with small_disk(project.folder / study.root):
        for run in study_runs(study):
            if run.cell.device == "cpu":
                write_record(synthetic.record_of(study, run), project.folder / planned_record(study, run))
        write_study(study, project.folder / study.root / "config.yaml")
        fill(project.folder / study.root, 2**14)
        done = project.snakemake("tables", config=config)
        assert done.code != 0
        assert any(words in done.out for words in WORDS), done.out
        assert "Traceback" not in done.out and "whichdevice/" not in done.out, done.out
        assert not list((project.folder / study.root).glob("tables/*.csv"))
