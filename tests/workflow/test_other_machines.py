"""A study on a machine that is not like the developer's: one core, locale C, letters beyond ASCII, a strange home."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from workflow.conftest import copy_project

from whichdevice.records.store import read_record

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="taskset and mounts of Linux")]
STUDY = {
    "study": "elsewhere",
    "measure": {"seconds": 0.1, "min_steps": 1, "repeats": 1, "retry_disturbed": False},
    "data": {"source": "standin"},
    "train": {"epochs": 1},
    "forecast": {"devices": []},
    "workloads": {"mnist_official": {"batch_size": [64], "backend": ["jax"], "fraction": [0.02]}},
}
# The clone's parent and the old home are read-only, the new home lies on another file system.
SEALED = (
    'mount --bind "$1" "$1" && mount --bind "$2" "$2" && mount -o remount,ro,bind "$1" && cd "$2" && '
    'shift 2 && exec "$@"'
)


@pytest.fixture(scope="module")
def can_seal() -> bool:
    """Whether this user may make folders read-only for one command."""
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, can_seal: bool) -> tuple[Path, str]:
    """The folder of a study that ran there, and what was said."""
    parent = tmp_path_factory.mktemp("parent")
    project = copy_project(parent / "Mein Ordner für Messungen 測定").folder
    (project / "study.yaml").write_text(yaml.safe_dump(STUDY), encoding="utf-8")
    home = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tmp_path_factory.mktemp("home")
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "all", "--configfile", "study.yaml"]
    command = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), *command]
    if can_seal:
        command = ["unshare", "-m", "sh", "-c", SEALED, "sh", str(parent), str(project), *command]
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    environment = {**kept, "HOME": str(home / "whichdevice-home"), "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
    (home / "whichdevice-home").mkdir(exist_ok=True)
    try:
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, encoding="utf-8", timeout=600, check=False
        )
    finally:
        shutil.rmtree(home / "whichdevice-home")
    assert done.returncode == 0, done.stdout + done.stderr
    return project, done.stdout + done.stderr


def test_it_ends_with_a_report(finished: tuple[Path, str]) -> None:
    project, said = finished
    assert "All 1 runs are ok." in said
    assert (project / "results/elsewhere/report.html").read_text(encoding="utf-8").count("·")


def test_the_run_took_the_one_core_it_had(finished: tuple[Path, str]) -> None:
    (path,) = (finished[0] / "results").glob("elsewhere/runs/**/record.json")
    assert read_record(path).machine.threads == 1


def test_nothing_is_written_beside_the_clone(finished: tuple[Path, str], can_seal: bool) -> None:
    if not can_seal:
        pytest.skip("unshare is missing, or may mount nothing: the clone's parent was not read-only")
    project, _ = finished
    assert [path.name for path in project.parent.iterdir()] == [project.name]
