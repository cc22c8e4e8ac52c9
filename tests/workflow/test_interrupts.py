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

from whichdevice.records.store import read_record

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")]
WAIT = 120  # seconds: another measurement on this host may have to end first
STUDY = {
    "measure": {"seconds": 2, "min_steps": 2, "timeout": 60, "retry_disturbed": False},
    "workloads": {"matmul": {"batch_size": [64]}},
}


def until(what: Callable[[], Any], seconds: float, why: str) -> Any:
    """Wait for something to become true; its value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := what():
            return value
        time.sleep(0.05)
    pytest.fail(why)


def measured(folder: Path) -> list[psutil.Process]:
    """The measured processes that run in this copy of the project."""
    return running(folder, "whichdevice.measuring.process")


def is_importing(process: psutil.Process) -> bool:
    """Whether a measured process has read its job and is busy with the framework: seconds before its end."""
    with contextlib.suppress(psutil.Error):
        return process.memory_info().rss > 100e6
    return False


def running(folder: Path, what: str) -> list[psutil.Process]:
    """Processes in this copy of the project whose command line holds `what`."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and any(what in part for part in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def listen_to_interrupts() -> None:
    """A shell starts what it runs in the background deaf to Ctrl-C, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(project: Any, name: str, repeats: int, target: str) -> subprocess.Popen[str]:
    """Snakemake in a process group of its own, while its second run is starting."""
    project.write({**STUDY, "study": name, "measure": {**STUDY["measure"], "repeats": repeats}})
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--cores", "1", target, "--configfile", "study.yaml"],
        cwd=project.folder,
        stdout=(project.folder / "said").open("w"),
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=listen_to_interrupts,
    )
    until(lambda: records(project, name), WAIT, "no first record")
    until(lambda: any(map(is_importing, measured(project.folder))), WAIT, "no second run")
    return process


def records(project: Any, name: str) -> dict[Path, bytes]:
    """The study's records as they lie there; an attempt's folder may go away beside them."""
    return {path: path.read_bytes() for path in (project.folder / "results" / name).glob("runs/*/*/*/r*/*/record.json")}


def half(project: Any, name: str) -> list[Path]:
    """What lies in the runs' folders and is no record: files written aside, an attempt's folder."""
    found = (project.folder / "results" / name).glob("runs/*/*/*/r*/*/*")
    return [path for path in found if path.name != "record.json"]


@dataclass
class Cut:
    """A study that was ended in its second run and then called once more."""

    name: str
    kept: dict[Path, bytes]  # records when it was ended
    outlived: bool  # by the measured process
    half: list[Path]  # unfinished files once it had ended
    said: str  # by the call that was ended
    again: Any  # the next call


def cut(project: Any, name: str, repeats: int, target: str, end: Callable[[int], None]) -> Cut:
    """End a study by `end(process id)` and call it again."""
    process = started(project, name, repeats, target)
    try:
        kept = records(project, name)
        end(process.pid)
        assert process.wait(WAIT) != 0
        deadline = time.monotonic() + 3  # the run itself would take twice as long
        while (outlived := bool(measured(project.folder))) and time.monotonic() < deadline:
            time.sleep(0.05)
        left = half(project, name)
        said = (project.folder / "said").read_text(encoding="utf-8")
        again = project.snakemake(target)
        return Cut(name, kept, outlived, left, said, again)
    finally:
        for left_over in running(project.folder, ""):
            left_over.kill()


@pytest.fixture(scope="module")
def killed(project) -> Cut:
    """Killed for good: Snakemake alone, which can do nothing about it."""
    return cut(project, "killed", 3, "tables", lambda pid: os.kill(pid, signal.SIGKILL))


@pytest.fixture(scope="module")
def interrupted(project) -> Cut:
    """Ctrl-C: the terminal sends the signal to everything in the foreground."""
    return cut(project, "interrupted", 2, "runs", lambda pid: os.killpg(pid, signal.SIGINT))


@pytest.fixture(params=["killed", "interrupted"])
def ended(request) -> Cut:
    """Either way."""
    return request.getfixturevalue(request.param)


def test_the_measured_process_ends_too(ended):
    assert not ended.outlived


def test_finished_records_stay_as_they_are(project, ended):
    assert len(ended.kept) == 1
    found = records(project, ended.name)
    assert {path: found[path] for path in ended.kept} == ended.kept


def test_a_plain_call_goes_on_and_finishes(project, ended):
    assert ended.again.code == 0, ended.again.out
    runs = {"killed": 3, "interrupted": 2}[ended.name]
    assert f"All {runs} runs are ok." in ended.again.out
    found = records(project, ended.name)
    assert len(found) == runs
    assert {read_record(path).status for path in found} == {"ok"}


def test_nothing_half_written_remains(project, ended):
    assert half(project, ended.name) == []


def test_the_killed_study_has_its_tables_and_nothing_left_to_do(project, killed):
    assert (project.folder / "results/killed/tables/runs.csv").is_file()
    project.write({**STUDY, "study": "killed", "measure": {**STUDY["measure"], "repeats": 3}})
    assert "Nothing to be done" in project.snakemake("tables").out


def test_ctrl_c_cleans_up_at_once_and_shows_no_code_of_ours(interrupted):
    assert interrupted.half == []
    assert "whichdevice/" not in interrupted.said
    assert "Traceback" not in interrupted.said, interrupted.said
