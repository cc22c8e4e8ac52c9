"""A study that is killed or interrupted leaves only whole records, no process, and goes on where it stopped."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from beside import beside
from workflow.conftest import Outcome, Project

from whichdevice.study.records.store import read_record

BESIDE = beside(__file__)

pytestmark = pytest.mark.slow

WAIT = 600  # seconds: another measurement on this host may have to end first
STUDY = BESIDE["study"]
# Its first run ends, each later one goes on until it is released.
HELD = BESIDE["held"]


@dataclass
class Stopped:
    """A call that was ended in its second run."""

    records: dict[Path, bytes]  # when it was ended
    outlived: bool  # by the measured process
    half: list[Path]  # unfinished files once it had ended
    said: str


@dataclass
class Story:
    """A study that was killed, called again, interrupted, and called once more."""

    project: Project
    killed: Stopped
    interrupted: Stopped
    finished: Outcome


@pytest.fixture(scope="module")
def story(project: Project) -> Story:
    """Killed for good is Snakemake alone, which can do nothing about it; Ctrl-C goes to the whole foreground."""
    (project.folder / "held.py").write_text(HELD, encoding="utf-8")
    project.write(STUDY)
    try:
        killed = stopped(project, lambda pid: os.kill(pid, signal.SIGKILL))
        interrupted = stopped(project, lambda pid: os.killpg(pid, signal.SIGINT))
        (project.folder / "released").touch()
        return Story(project, killed, interrupted, project.snakemake("runs"))
    finally:
        for left in running(project.folder, ""):
            left.kill()


def stopped(project: Project, end: Callable[[int], None]) -> Stopped:
    """Call the study and end the call by `end(process id)` while its second run goes on."""
    (project.folder / "holding").unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--cores", "1", "runs", "--configfile", "study.yaml"],
        cwd=project.folder,
        stdout=(project.folder / "said").open("w"),
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=listen_to_interrupts,
    )
    until(lambda: (project.folder / "holding").exists() or process.poll() is not None)
    kept = records(project)
    assert process.poll() is None and measured(project.folder), (project.folder / "said").read_text(encoding="utf-8")
    end(process.pid)
    assert process.wait(WAIT) != 0
    outlived = not until(lambda: not measured(project.folder), seconds=60)
    said = (project.folder / "said").read_text(encoding="utf-8")
    return Stopped(kept, outlived, half(project), said)


def listen_to_interrupts() -> None:
    """A shell starts what it runs in the background deaf to Ctrl-C, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def until(what: Callable[[], Any], seconds: float = WAIT) -> bool:
    """Wait for something to become true; whether it did."""
    deadline = time.monotonic() + seconds
    while not (found := bool(what())) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def measured(folder: Path) -> list[psutil.Process]:
    """The measured processes that run in this copy of the project."""
    return running(folder, "whichdevice.measure.process")


def running(folder: Path, what: str) -> list[psutil.Process]:
    """Processes in this copy of the project whose command line holds `what`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(folder) and any(what in part for part in process.cmdline()):
                found.append(process)
    return found


def records(project: Project) -> dict[Path, bytes]:
    """The study's records; an attempt's folder may go away beside them."""
    found = (project.folder / "results/stopped").glob("runs/*/*/*/r*/*/record.json")
    return {path: path.read_bytes() for path in found}


def half(project: Project) -> list[Path]:
    """What is in the runs' folders and is no record: files written aside, an attempt's folder."""
    found = (project.folder / "results/stopped").glob("runs/*/*/*/r*/*/*")
    return [path for path in found if path.name != "record.json"]


@pytest.mark.parametrize("way", ["killed", "interrupted"])
def test_the_measured_process_ends_too(story: Story, way: str) -> None:
    assert not getattr(story, way).outlived


@pytest.mark.parametrize("way", ["killed", "interrupted"])
def test_finished_records_stay_as_they_are(story: Story, way: str) -> None:
    kept = getattr(story, way).records
    assert len(kept) == 1
    found = records(story.project)
    assert {path: found[path] for path in kept} == kept


def test_a_plain_call_goes_on_and_finishes(story: Story) -> None:
    assert story.finished.code == 0, story.finished.out
    assert "All 2 runs are ok." in story.finished.out
    assert [read_record(path).status for path in records(story.project)] == ["ok", "ok"]
    assert half(story.project) == []


def test_ctrl_c_cleans_up_at_once_and_shows_no_code_of_ours(story: Story) -> None:
    assert story.interrupted.half == []
    assert "whichdevice/" not in story.interrupted.said
    assert "Traceback" not in story.interrupted.said, story.interrupted.said
