"""What a hurried person gets wrong: one clear line, no traceback, non-zero exit, nothing half-written."""

import pytest

pytestmark = pytest.mark.slow

SMALL = {
    "study": "errors",
    "data": {"source": "standin"},
    "measure": {"repeats": 1},
    "workloads": {"mnist_cnn": {"batch_size": [256]}},
}


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
