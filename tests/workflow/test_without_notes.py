"""What Snakemake is told where it has no notes of its own, and of resources that only some devices name."""

from pathlib import Path
from typing import Any

import pytest
import synthetic
import yaml
from workflow.conftest import Project

from whichdevice.config.load import load_study
from whichdevice.records.store import write_record

pytestmark = pytest.mark.slow
STUDY: dict[str, Any] = {
    "study": "copied",
    "run_on": "all",
    "data": {"source": "standin"},
    "devices": {
        "small": {"kind": "cpu"},
        "large": {"kind": "cpu", "resources": {"slurm_account": "ours", "disk_mb": 9}},
    },
    "measure": {"repeats": 1},
    "workloads": {"matmul": {"batch_size": [64]}},
}


@pytest.fixture
def copied(project: Project) -> Project:
    """A checkout with all records of a study, and nothing of Snakemake's."""
    project.write(STUDY)
    study = load_study(yaml.safe_load((project.folder / "study.yaml").read_text(encoding="utf-8")))
    for run in synthetic.configured_runs(study):
        write_record(synthetic.record_of_this_code(study, run), project.folder / run.record(study))
    return project


def test_records_that_came_from_elsewhere_are_measured_again_where_settings_changed(copied: Project) -> None:
    assert "Nothing to be done" in copied.snakemake("-n", "runs").out
    assert copied.snakemake("-n", "runs", "--config", "measure={seconds: 7}").jobs["measure"] == 2
    assert "Nothing to be done" in copied.snakemake("-n", "runs", "--config", "measure={timeout: 7}").out
    unasked = copied.snakemake("-n", "runs", "--config", "measure={seconds: 7}", "--rerun-triggers", "mtime")
    assert "Nothing to be done" in unasked.out


def test_what_is_measured_with_other_settings_is_said_before_it_is_replaced(copied: Project) -> None:
    done = copied.snakemake("runs", "--config", "measure={seconds: 0.2, repeats: 1}", "only={device: small}")
    assert done.code == 0, done.out
    told = "1 finished record was measured with other settings and will be measured again (first: results/copied/runs/"
    assert told in done.out
    assert ": seconds 1.0 -> 0.2). To keep them" in done.out
    assert done.out.index(told) < done.out.index("1 of 2 steps")


def test_records_that_came_from_elsewhere_are_measured_again_where_code_changed(copied: Project) -> None:
    matmul = "scripts/whichdevice/workloads/matmul.py"
    before = Path(copied.folder / matmul).read_text(encoding="utf-8")
    try:
        Path(copied.folder / matmul).write_text(f"{before}\nCHANGED = True\n", encoding="utf-8")
        assert copied.snakemake("-n", "runs").jobs["measure"] == 2
    finally:
        Path(copied.folder / matmul).write_text(before, encoding="utf-8")


def test_a_profile_s_default_holds_for_devices_that_name_no_other(copied: Project) -> None:
    defaults = ["--default-resources", "slurm_account='all'", "disk_mb=attempt*5"]
    out = copied.snakemake("-n", "runs", "--forcerun", "measure", "--quiet", "host", *defaults).out
    asked = {line for line in out.splitlines() if "mem_mb=8000" in line}
    assert sorted("slurm_account=ours" in line and "disk_mb=9" in line for line in asked) == [False, True], out
    assert sorted("slurm_account=all" in line and "disk_mb=5" in line for line in asked) == [False, True], out


def test_a_disk_that_only_one_device_names_stops_no_other(copied: Project) -> None:
    done = copied.snakemake("-n", "runs", "--forcerun", "measure")
    assert done.code == 0, done.out
    assert done.jobs["measure"] == 2
