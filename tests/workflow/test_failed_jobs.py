"""What a failed job leaves: the record that lay there, the one it wrote itself, and no belief that it was done."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
STUDY = {
    "study": "failing",
    "devices": {"cpu": {"kind": "cpu"}},
    "workloads": {"matmul": {"batch_size": [32], "backend": ["jax"]}},
    "measure": {"repeats": 1, "seconds": 0.1, "min_steps": 1, "retry_disturbed": False},
}
LONGER = {**STUDY, "measure": {**STUDY["measure"], "seconds": 0.2}}
BEFORE, AFTER = "        measure(arguments.config", "    return 0\n"


def record(project: Any) -> Path:
    return next((project.folder / "results/failing/runs").glob("**/record.json"))


def seconds(project: Any) -> float:
    return json.loads(record(project).read_text(encoding="utf-8"))["asked"]["seconds"]


def test_a_job_that_fails_keeps_the_earlier_record_and_is_run_again(project: Any) -> None:
    assert project.snakemake("runs", config=STUDY).code == 0
    before = record(project).read_bytes()
    project.edit("scripts/measure.py", BEFORE, "        return 3\n" + BEFORE)
    assert project.snakemake("runs", config=LONGER).code != 0
    assert record(project).read_bytes() == before
    project.edit("scripts/measure.py", "        return 3\n", "")
    assert project.snakemake("runs", config=LONGER).code == 0
    assert seconds(project) == 0.2


def test_a_record_stays_whose_job_failed_after_it(project: Any) -> None:
    assert project.snakemake("runs", config=STUDY).code == 0
    project.edit("scripts/measure.py", AFTER, "    return 3\n")
    assert project.snakemake("runs", config=LONGER).code != 0
    written = record(project).read_bytes()
    assert seconds(project) == 0.2
    project.edit("scripts/measure.py", "    return 3\n", AFTER)
    assert project.snakemake("runs", config=LONGER).code == 0
    assert record(project).read_bytes() == written
    assert project.snakemake("runs", "-n", config=LONGER).jobs["measure"] == 0
