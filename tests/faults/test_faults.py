"""Whatever happens to a study, finished records stay byte for byte, unfinished runs go on, and the report tells."""

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil
import pytest
from faults.small_disk import WORDS, fill, small_disk
from workflow.conftest import Project, copy_project
from workflow.test_interrupts import measured, running, until

from whichdevice.study.records.store import read_record

# Interrupts, and tables on a full disk, are in tests/workflow; lack of memory and time-outs in
# tests/measuring; two calls at once in test_locks.py.
pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.needs("linux")]
MEASURE = {"seconds": 0.2, "min_steps": 1, "repeats": 2, "timeout": 600, "retry_seconds": 0}
STUDY = {
    "devices": {"cpu": {"kind": "cpu"}},
    "measure": MEASURE,
    "train": {"epochs": 0},
    "data": {"source": "standin"},
    "workloads": {"matmul": {"batch_size": [32], "backend": ["jax"]}},
}
LEARNING = {"mnist_official": {"batch_size": [64], "backend": ["jax"], "fraction": [0.02]}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return copy_project(tmp_path_factory.mktemp("faults") / "a study")


def records(project: Project, name: str) -> dict[Path, bytes]:
    return {
        path: path.read_bytes() for path in sorted((project.folder / f"results/{name}").glob("runs/**/record.json"))
    }


def finished(project: Project, config: dict, *arguments: str) -> dict[Path, bytes]:
    """The records once the whole study is made, none of which a further call would measure."""
    done = project.snakemake(*(arguments or ("all",)), config=config)
    assert done.code == 0, done.out[-2000:]
    assert "Nothing to be done" in project.snakemake("runs", "-n").out
    assert not list((project.folder / "results").glob("*/runs/**/.record.json.*")), "half-written"
    return records(project, config["study"])


def statuses(project: Project, name: str) -> set[str]:
    return set(pd.read_csv(project.folder / f"results/{name}/tables/runs.csv")["status"])


def test_a_clock_that_is_set_back_loses_no_record_and_hides_no_new_one(project: Project) -> None:
    config = {**STUDY, "study": "clock"}
    before = finished(project, config)
    tomorrow = time.time() + 86_400
    for path in project.folder.rglob("*"):
        if ".snakemake" not in path.parts:
            os.utime(path, (tomorrow, tomorrow))
    after = finished(project, {**config, "measure": {**MEASURE, "repeats": 3}})
    assert before.items() <= after.items() and len(after) == 3
    assert (project.folder / "results/clock/tables/runs.csv").read_text(encoding="utf-8").count("/r3,") == 1


def test_kills_at_random_moments_lose_no_record(project: Project) -> None:
    config = {**STUDY, "study": "kills", "measure": {**MEASURE, "repeats": 4}}
    draw, kept = random.Random(3), set[Path]()
    project.write(config)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "runs", "--configfile", "study.yaml"]
    for what in ("snakemake", "scripts/measure.py", "whichdevice.measure.process"):
        with subprocess.Popen(command, cwd=project.folder, stderr=subprocess.DEVNULL) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(draw.uniform(0.5, 12))
            while process.poll() is None and not (victims := running(project.folder, what)):
                time.sleep(0.01)
            for victim in victims if process.poll() is None else ():
                with suppress(psutil.Error):
                    victim.kill()
        assert until(lambda: not measured(project.folder), seconds=60), "a measured process outlived the study"
        found = set(records(project, "kills"))
        assert kept <= found and {read_record(path).status for path in found} <= {"ok"}
        kept = found
    assert len(finished(project, config)) == 4 and statuses(project, "kills") == {"ok"}


@pytest.mark.parametrize("room", [0, 2**20])
def test_a_full_disk_is_one_line_and_what_is_missing_is_made_once_there_is_room(project: Project, room: int) -> None:
    config = {**STUDY, "study": f"full{room}", "workloads": {**STUDY["workloads"], **LEARNING}, "train": {"epochs": 1}}
    with small_disk(folder := project.folder / f"results/full{room}"):
        fill(folder, room)
        done = project.snakemake("all", config=config)
        assert any(words in done.out for words in WORDS), done.out[-1500:]
        assert "whichdevice/" not in done.out, "code is shown"
        (folder / "ballast").unlink()
        finished(project, config)
        assert statuses(project, f"full{room}") == {"ok"}


@pytest.mark.needs("mounts")
def test_a_folder_that_cannot_be_written_is_one_line_and_harms_nothing(project: Project) -> None:
    config = {**STUDY, "study": "closed"}
    before = finished(project, config)
    mounted = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$@"'
    closed = Project(project.folder, ("unshare", "-m", "sh", "-c", mounted, str(project.folder)))
    done = closed.snakemake("all", "--forcerun", "measure")
    assert done.code != 0 and "Traceback" not in done.out
    assert finished(project, config) == before
