"""Two studies on a throw-away Slurm: one left alone, one whose jobs are cancelled and whose node dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slurm.throwaway_slurm import Job, ThrowawaySlurm
from workflow.conftest import Project

PATIENCE = 900  # seconds: another measurement on this host may have to end first
PLUGIN = Path(__file__).parents[2] / ".venv/apart/slurm"
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
    return [sys.executable, "-m", "snakemake", *arguments, *profile, *QUICK]


def variables(slurm: ThrowawaySlurm) -> dict[str, str]:
    """Variables for Snakemake and, through sbatch, for its jobs."""
    python = f"{Path(sys.executable).parent}:{slurm.folder}/bin:{slurm.environment['PATH']}"
    return {**slurm.environment, "PATH": python, "PYTHONPATH": str(PLUGIN), "PYTHONDONTWRITEBYTECODE": "1"}


def write(project: Project, name: str, devices: dict[str, Any] = DEVICES, **workload: Any) -> None:
    """The study of a test: one small run on each device."""
    project.write(
        {
            "study": name,
            "devices": devices,
            "measure": {"seconds": 0.05, "min_steps": 2, "repeats": 1, "breakdown": False, "retry_disturbed": False},
            "workloads": {"matmul": {"batch_size": [32], "backend": ["jax"], **workload}},
        }
    )


def until(what: Callable[[], Any], why: str, seconds: float = 300) -> Any:
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


class Whole:
    """A study to its report, without accounting."""

    def __init__(self, project: Project) -> None:
        write(project, "whole")
        with ThrowawaySlurm(accounting=False) as slurm:
            done = subprocess.run(
                command("all"),
                cwd=project.folder,
                env=variables(slurm),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PATIENCE,
            )
            self.code, self.said, self.jobs, self.slurm = done.returncode, done.stdout, slurm.jobs(), slurm
            self.cores = int(slurm.ask("sinfo", "-h", "-p", "cpu", "-o", "%c"))
            self.refused = self._ask_for_too_much(project, slurm)

    def _ask_for_too_much(self, project: Project, slurm: ThrowawaySlurm) -> str:
        """Return what a call prints in a minute whose run asks for more cores than a node has; it is then ended."""
        greedy = {"at_cpu": {"kind": "cpu", "resources": {"slurm_partition": "cpu", "cpus_per_task": 999}}}
        write(project, "greedy", devices=greedy)
        process = subprocess.Popen(
            command("runs"),
            cwd=project.folder,
            env=variables(slurm),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            return process.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate()[0]


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
                self.code = process.wait(PATIENCE)
                self.jobs = slurm.jobs()
                self.accounted = slurm.ask("sacct", "-X", "-n", "-P", "-o", "Partition,NodeList,State")
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                self.said, self.slurm = said.read_text(encoding="utf-8"), slurm

    def _disturb(self, slurm: ThrowawaySlurm, folder: Path) -> None:
        def running() -> bool:
            return sorted(job.partition for job in slurm.jobs() if job.state == "RUNNING") == ["cpu", "gpu", "tpu"]

        until(running, "not one job on each node")
        slurm.cancel(of_device(slurm, "at_gpu")[0])
        slurm.kill_node("tpu")
        until(lambda: of_device(slurm, "at_tpu")[0].state == "NODE_FAIL", "Slurm does not notice the lost node")
        (folder / "released").touch()
