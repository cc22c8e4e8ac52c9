"""A study through profiles/slurm on a real Slurm of three nodes on this machine: without accounting and with it.

The nodes gpu and tpu have no such device: three devices of kind cpu go to the three partitions.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from slurm.throwaway_slurm import Job, ThrowawaySlurm, missing_programs
from workflow.conftest import Project, copy_project

from whichdevice.records.store import read_record

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / ".venv/apart/slurm"
absent = [*missing_programs(), *([] if PLUGIN.is_dir() else ["the plugin (sh envs/extra.sh slurm --apart)"])]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(absent), reason=f"no Slurm to start: {', '.join(absent)} not installed"),
]
DEVICES = {
    "at_cpu": {"kind": "cpu", "resources": {"slurm_partition": "cpu"}},
    "at_gpu": {"kind": "cpu", "resources": {"slurm_partition": "gpu", "gres": "gpu:t4:1", "mem_mb": 3000}},
    "at_tpu": {"kind": "cpu", "resources": {"slurm_partition": "tpu", "gres": "tpu:8", "runtime": 20}},
}
RUN = "matmul/jax-float32-b32/r1"
# So that a job is still running when it is cancelled or loses its node.
HELD = """
import time
from pathlib import Path
from whichdevice.workloads.base import Recipe
from whichdevice.workloads.matmul import Matmul

class Held(Matmul):
    recipe = Recipe("a test", 32)

    def operands(self, random):
        while not Path("released").exists():
            time.sleep(0.1)
        return super().operands(random)
"""
QUICK = [
    "--slurm-init-seconds-before-status-checks",
    "1",
    "--seconds-between-status-checks",
    "1",
    "--latency-wait",
    "5",
]


def command(*arguments: str) -> list[str]:
    """Snakemake through the profile."""
    profile = ["--profile", "profiles/slurm", "--configfile", "study.yaml", "--config", "run_on=all"]
    return [sys.executable, "-m", "snakemake", *arguments, "--cores", "2", *profile, *QUICK]


def variables(slurm: ThrowawaySlurm) -> dict[str, str]:
    """For Snakemake and, through sbatch, for its jobs."""
    python = f"{Path(sys.executable).parent}:{slurm.folder}/bin:{slurm.environment['PATH']}"
    return {**slurm.environment, "PATH": python, "PYTHONPATH": str(PLUGIN), "PYTHONDONTWRITEBYTECODE": "1"}


def write(project: Project, name: str, **workload: Any) -> None:
    """The study of a test: one small run on each device."""
    project.write(
        {
            "study": name,
            "devices": DEVICES,
            "measure": {"seconds": 0.05, "min_steps": 2, "repeats": 1},
            "workloads": {"matmul": {"batch_size": [32], "backend": ["jax"], **workload}},
        }
    )


def until(what: Callable[[], Any], why: str, seconds: float = 120) -> Any:
    """Wait for something to become true; its value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := what():
            return value
        time.sleep(0.2)
    pytest.fail(why)


def of_device(slurm: ThrowawaySlurm, device: str) -> list[Job]:
    """The jobs that measured on a device, the first first."""
    return sorted((job for job in slurm.jobs() if device in job.comment), key=lambda job: int(job.id))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project in a folder whose name the executor's plugin takes."""
    return copy_project(tmp_path_factory.mktemp("cluster") / "study")


class Whole:
    """A study to its tables, without accounting."""

    def __init__(self, project: Project) -> None:
        write(project, "whole")
        with ThrowawaySlurm(accounting=False) as slurm:
            done = subprocess.run(
                command("tables"),
                cwd=project.folder,
                env=variables(slurm),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
            )
            self.code, self.said, self.jobs, self.folder = done.returncode, done.stdout, slurm.jobs(), slurm.folder


class Disturbed:
    """A study with accounting: one job is cancelled, one node dies for good, both while their runs go on."""

    def __init__(self, project: Project) -> None:
        (project.folder / "held.py").write_text(HELD, encoding="utf-8")
        write(project, "disturbed", module="held.py")
        said = project.folder / "said"
        with ThrowawaySlurm(accounting=True) as slurm:
            process = subprocess.Popen(
                command("runs"),
                cwd=project.folder,
                env=variables(slurm),
                stdout=said.open("w"),
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._disturb(slurm, project.folder)
                self.code = process.wait(300)
                self.jobs = slurm.jobs()
                self.accounted = slurm.ask("sacct", "-X", "-n", "-P", "-o", "Partition,NodeList,State")
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                self.said, self.folder = said.read_text(encoding="utf-8"), slurm.folder

    def _disturb(self, slurm: ThrowawaySlurm, folder: Path) -> None:
        def running() -> bool:
            return sorted(job.partition for job in slurm.jobs() if job.state == "RUNNING") == ["cpu", "gpu", "tpu"]

        until(running, "not one job on each node")
        slurm.cancel(of_device(slurm, "at_gpu")[0])
        slurm.kill_node("tpu")
        until(lambda: of_device(slurm, "at_tpu")[0].state == "NODE_FAIL", "Slurm does not notice the lost node")
        (folder / "released").touch()


@pytest.fixture(scope="module")
def whole(project: Project) -> Iterator[Whole]:
    """Run once for the tests that read from it."""
    yield Whole(project)


@pytest.fixture(scope="module")
def disturbed(project: Project) -> Iterator[Disturbed]:
    """Run once for the tests that read from it."""
    yield Disturbed(project)


def measured_at(jobs: list[Job]) -> dict[str, tuple[str, str]]:
    """Device: partition and node of its last job."""
    return {
        device: (job.partition, job.node)
        for device in DEVICES
        for job in jobs
        if device in job.comment and job.state == "COMPLETED"
    }


def test_each_device_is_measured_in_its_partition(whole):
    assert whole.code == 0, whole.said
    assert measured_at(whole.jobs) == {"at_cpu": ("cpu", "cpu"), "at_gpu": ("gpu", "gpu"), "at_tpu": ("tpu", "tpu")}


def test_the_study_ends_with_all_its_records_and_tables(project, whole):
    assert "All 3 runs are ok." in whole.said
    root = project.folder / "results/whole"
    assert {read_record(path).status for path in root.glob("runs/**/record.json")} == {"ok"}
    assert len((root / "tables/runs.csv").read_text().splitlines()) == 4


def test_a_cancelled_job_runs_again(project, disturbed):
    states = [job.state for job in disturbed.jobs if "at_gpu" in job.comment]
    assert sorted(states) == ["CANCELLED", "COMPLETED"], disturbed.said
    assert read_record(project.folder / "results/disturbed/runs/at_gpu" / RUN / "record.json").status == "ok"


def test_a_lost_node_is_told_and_the_other_runs_go_on(project, disturbed):
    assert disturbed.code != 0
    assert "failed due to a node failure" in disturbed.said
    (line,) = [line for line in disturbed.said.splitlines() if "No record" in line]
    assert line.startswith(f"No record of 1 of 3 runs (first: at_tpu/{RUN})")
    assert read_record(project.folder / "results/disturbed/runs/at_cpu" / RUN / "record.json").status == "ok"


def test_accounting_knows_partition_and_node(disturbed):
    assert "cpu|cpu|COMPLETED" in disturbed.accounted
    assert "tpu|tpu|NODE_FAIL" in disturbed.accounted


def test_nothing_of_slurm_is_left(whole, disturbed):
    for folder in (whole.folder, disturbed.folder):
        assert not folder.exists()
        left = [process for process in psutil.process_iter(["cmdline"]) if str(folder) in str(process.info["cmdline"])]
        assert not left
