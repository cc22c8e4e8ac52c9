"""A study through profiles/slurm: planned, and on a real Slurm of three nodes on this machine.

The nodes gpu and tpu have no such device: three devices of kind cpu go to the three partitions.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from slurm.throwaway_slurm import ThrowawaySlurm
from workflow.conftest import Outcome, Project, copy_project

from whichdevice.study.records.store import read_record

pytestmark = [pytest.mark.slow, pytest.mark.needs("slurm plugin")]

PATIENCE = 900  # seconds: another measurement on this host may have to end first
PLUGIN = Path(__file__).parents[2] / ".venv/apart/slurm"
STUDY: dict[str, Any] = {
    "study": "whole",
    "devices": {
        "at_cpu": {"kind": "cpu", "resources": {"slurm_partition": "cpu"}},
        "at_gpu": {"kind": "cpu", "resources": {"slurm_partition": "gpu", "gres": "gpu:t4:1", "mem_mb": 3000}},
        "at_tpu": {"kind": "cpu", "resources": {"slurm_partition": "tpu", "gres": "tpu:8", "runtime": 20}},
    },
    "measure": {"seconds": 0.05, "min_steps": 2, "repeats": 1, "retry_seconds": 0},
    "workloads": {"matmul": {"batch_size": [32], "backend": ["jax"]}},
}
QUICK = [
    *("--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1"),
    *("--latency-wait", "5"),
]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A copy of the project in a folder whose name the executor's plugin takes."""
    made = copy_project(tmp_path / "study")
    made.write(STUDY)
    return made


def snakemake(project: Project, environment: dict[str, str], *arguments: str) -> Outcome:
    """Snakemake through the profile."""
    profile = ["--profile", "profiles/slurm", "--configfile", "study.yaml", "--config", "run_on=all"]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments, *profile, *QUICK],
        cwd=project.folder,
        env={**environment, "PYTHONPATH": str(PLUGIN), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )
    return Outcome(done.returncode, done.stdout)


def test_snakemake_takes_the_profile_and_plans_every_device_without_a_cluster(project: Project) -> None:
    planned = snakemake(project, dict(os.environ), "all", "--dry-run")
    assert planned.code == 0, planned.out
    assert planned.jobs["measure"] == len(STUDY["devices"]), planned.out


@pytest.mark.long
@pytest.mark.needs("slurm")
def test_each_device_is_measured_in_its_partition_and_the_report_follows(project: Project) -> None:
    with ThrowawaySlurm() as slurm:
        python = f"{Path(sys.executable).parent}:{slurm.folder}/bin:{slurm.environment['PATH']}"
        whole = snakemake(project, {**slurm.environment, "PATH": python}, "all")
        jobs, cores = slurm.jobs(), int(slurm.ask("sinfo", "-h", "-p", "cpu", "-o", "%c"))
    assert whole.code == 0 and "All 3 runs are ok." in whole.out, whole.out
    places = {(job.partition, job.node) for job in jobs if "measure" in job.comment and job.state == "COMPLETED"}
    assert places == {(node, node) for node in ("cpu", "gpu", "tpu")}
    assert [job.comment for job in jobs if "measure" not in job.comment] == ["rule_drawing_figures_report_tables"]
    root = project.folder / "results/whole"
    records = [read_record(path) for path in root.glob("runs/**/record.json")]
    assert {(record.status, record.machine.threads) for record in records} == {("ok", cores)}
    assert len((root / "tables/runs.csv").read_text().splitlines()) == 4
    assert (root / "report.html").is_file()
