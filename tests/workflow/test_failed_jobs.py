"""What a failed job leaves: the record that was there, or the one that it wrote itself."""

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
BEFORE, AFTER = "        measure(arguments.config", "    return 0\n"
FORCED = ("runs", "--forcerun", "measure")


def record(project: Any) -> Path:
    (found,) = (project.folder / "results/failing/runs").glob("**/record.json")
    return found


def test_a_forced_run_that_fails_keeps_the_earlier_record(project: Any) -> None:
    assert project.snakemake("runs", config=STUDY).code == 0
    before = record(project).read_bytes()
    project.edit("scripts/measure.py", BEFORE, "        return 3\n" + BEFORE)
    assert project.snakemake(*FORCED).code != 0
    assert record(project).read_bytes() == before
    project.edit("scripts/measure.py", "        return 3\n", "")
    project.edit("scripts/measure.py", AFTER, "    return 3\n")  # it fails after its record
    assert project.snakemake(*FORCED).code != 0
    assert record(project).read_bytes()
    project.edit("scripts/measure.py", "    return 3\n", AFTER)
    assert project.snakemake("runs").code == 0
    assert "Nothing to be done" in project.snakemake("runs").out
