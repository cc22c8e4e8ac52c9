"""A process ends with its parent, and a block within its time limit."""

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from beside import beside

from whichdevice.base.processes import quick_imports

BESIDE = beside(__file__)

JOB = BESIDE["job"]


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


ASKS_ALL = BESIDE["asks all"]


def test_a_package_that_looks_absent_has_nothing_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy asks a loaded PyTorch for its tensors; scikit-learn imports SciPy, and Keras scikit-learn."""
    (tmp_path / "asks_all.py").write_text(ASKS_ALL)
    (tmp_path / "heavy.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with quick_imports("heavy"):
        assert importlib.import_module("asks_all").heavy is None
    assert importlib.import_module("heavy").__file__ == str(tmp_path / "heavy.py")


@pytest.mark.slow
@pytest.mark.needs("scikit-learn")
def test_keras_imports_quickly_where_scikit_learn_is_installed() -> None:
    code = "from whichdevice.base.processes import quick_imports\nwith quick_imports('tensorflow', 'torch'):\n"
    code += "    import keras"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "KERAS_BACKEND": "jax"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
