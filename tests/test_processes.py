"""A process ends with its parent, and a block within its time limit."""

import os
import subprocess
import sys
import time

import pytest

JOB = """
import os, time
from whichdevice.processes import stop_with_parent
stop_with_parent({starter})
print("started", flush=True)
time.sleep(2)
print("went on")
"""


def job(starter: int) -> str:
    """What a job says whose Snakemake has that number, started by this process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = JOB.format(starter=starter)
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True).stdout


def ended() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_job_whose_snakemake_died_before_it_looked_ends() -> None:
    assert "went on" not in job(ended())


@pytest.mark.parametrize("starter", [os.getpid(), os.getppid()], ids=["Snakemake", "one between"])
def test_a_job_whose_snakemake_lives_goes_on(starter: int) -> None:
    assert "went on" in job(starter)


def test_a_job_whose_snakemake_dies_later_ends(tmp_path) -> None:
    script = f"{JOB.format(starter='os.getppid()')}\nopen({str(tmp_path / 'outlived')!r}, 'w')"
    owner = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {script!r}])"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    assert owner.stdout is not None and owner.stdout.readline() == b"started\n"
    owner.kill()
    owner.communicate()  # the job has the other end, and ends by itself
    time.sleep(0.1)
    assert not (tmp_path / "outlived").exists()
