"""A call beside a running one, or a dry run, leaves a study as it is: merged records and times of files too."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import synthetic

from whichdevice.planning.claim import Claim
from whichdevice.planning.study_plan import plan_study

pytestmark = pytest.mark.slow
STUDY = {
    "study": "small",
    "devices": {"cpu": {"kind": "cpu"}},
    "workloads": {"mnist_cnn": {"batch_size": [256]}},
    "measure": {"repeats": 1},
    "data": {"source": "standin"},
}
HOLD = """
import pathlib, sys
from whichdevice.locks import study_lock
lock = study_lock(pathlib.Path("results/small"))
print("held", flush=True)
sys.stdin.read()
"""


def merging(device: str) -> str:
    return f"merge=[{{from: other_{device}, rename: {{cpu: {device}}}}}]"


def merged_study(project: Any) -> Path:
    """A study with one machine's records merged and its files from tomorrow; another machine's lie beside it."""
    os.chdir(project.folder)
    study = synthetic.small_study(devices={"cpu": synthetic.small_study().devices["cpu"]})
    for device in ("laptop", "desktop"):
        synthetic.write_study(study, Path(f"other_{device}"))
    claim = Claim(dry=False)
    merge = [{"from": "other_laptop", "rename": {"cpu": "laptop"}}]
    plan_study({**STUDY, "forecast": {"devices": []}, "merge": merge}, claim=claim)
    claim.release()
    tomorrow = time.time() + 86_400
    for path in Path("results/small").rglob("*"):
        os.utime(path, (tomorrow, tomorrow))
    return project.folder / "results"


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of every file of a folder, but of the lock, where the other call writes its number."""
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@contextmanager
def running(project: Any) -> Iterator[None]:
    """Another call has the study meanwhile."""
    command = [sys.executable, "-c", HOLD]
    environment = {**os.environ, "PYTHONPATH": "scripts"}
    owner = subprocess.Popen(
        command, cwd=project.folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert owner.stdout is not None and owner.stdout.readline() == b"held\n"
        yield
    finally:
        owner.communicate()


def test_neither_a_second_call_nor_a_dry_run_changes_a_study(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)  # to be where the tests were afterwards
    results = merged_study(project)
    before = tree(results)
    assert len(before) > 4
    project.write(STUDY)
    with running(project):
        done = project.snakemake("tables", "--config", merging("desktop"))
        assert done.code != 0 and "in use by another study" in done.error
        assert tree(results) == before
        planned = project.snakemake("tables", "-n", "--config", merging("desktop"))
        assert planned.code == 0 and planned.jobs["tables"] == 1, planned.out
        assert tree(results) == before
    assert project.snakemake("tables", "-n", "--config", merging("desktop")).code == 0
    assert tree(results) == before
