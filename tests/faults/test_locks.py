"""Locks between processes, also when their owner is killed."""

import errno
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whichdevice
from whichdevice.base import locks
from whichdevice.base.errors import StudyError
from whichdevice.base.locks import MEASUREMENT_LOCK, StudyLock, measurement_lock

SCRIPTS = str(Path(whichdevice.__file__).parents[1])
HEAD = "import os, subprocess, sys, time\nfrom pathlib import Path\nfrom whichdevice.base.locks import *\n"
STUDY = "lock = StudyLock(Path({0!r})).take()"
MEASUREMENT = "lock = measurement_lock('study quick, cpu/matmul', print, Path({0!r})); lock.__enter__()"
Owner = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    """Starts a process that runs some code on the folder, prints `held` and sleeps."""
    processes = []

    def start(code: str) -> "subprocess.Popen[str]":
        code = f"{HEAD}{code.format(str(tmp_path))}\nprint('held', flush=True)\ntime.sleep(60)"
        environment = {**os.environ, "PYTHONPATH": SCRIPTS}
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def never(text: str) -> None:
    raise AssertionError(f"nothing to wait for: {text}")


def test_a_study_in_use_is_refused_in_one_line_until_its_owner_dies(tmp_path: Path, owner: Owner) -> None:
    other = owner(STUDY)
    assert first_line(other) == "held"
    with pytest.raises(StudyError) as error:
        StudyLock(tmp_path).take()
    assert str(error.value) == f"{tmp_path} is in use by another call; wait for it, or use another study name"
    kill(other)
    lock = StudyLock(tmp_path).take()
    for _ in range(2):  # a release may be repeated
        lock.release()
    StudyLock(tmp_path).take().release()


def test_making_the_lock_touches_nothing(tmp_path: Path) -> None:
    StudyLock(tmp_path / "study")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lock", [STUDY, MEASUREMENT])
def test_a_program_that_outlives_its_killed_owner_holds_nothing(tmp_path: Path, owner: Owner, lock: str) -> None:
    child = "child = subprocess.Popen(['sleep', '60'], close_fds=False); print(child.pid, flush=True)"
    other = owner(f"{lock}\n{child}")
    survivor = int(first_line(other))
    try:
        assert first_line(other) == "held"
        kill(other)
        os.kill(survivor, 0)  # still there
        StudyLock(tmp_path).take().release()
        with measurement_lock("mine", never, tmp_path):
            pass
    finally:
        os.kill(survivor, signal.SIGKILL)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match=r"cannot lock .*file/study: Not a directory"):
        StudyLock(tmp_path / "file/study").take()


def test_who_waits_reads_for_whom_since_when_and_never_waits_without_end(tmp_path: Path, owner: Owner) -> None:
    other = owner(MEASUREMENT)
    assert first_line(other) == "held"
    lines: list[str] = []
    with pytest.raises(StudyError) as error, measurement_lock("mine", lines.append, tmp_path, limit=0):
        pass
    since = r"20\d\d-\d\d-\d\d \d\d:\d\d"
    who = rf"process {other.pid} \(study quick, cpu/matmul\) since {since}"
    assert len(lines) == 1 and re.fullmatch(f"waiting for another measurement on this host, {who}", lines[0])
    assert re.search(f"has not ended after 0 minutes of waiting, {who}: repeat this command later", str(error.value))


def test_work_that_is_not_timed_prints_that_it_waits(tmp_path, owner, monkeypatch) -> None:
    monkeypatch.setenv(locks.LOCK_FOLDER, str(tmp_path))
    other = owner(MEASUREMENT)
    assert first_line(other) == "held"
    waits = owner("with beside_no_measurement('compiling'): pass".replace("with", "sys.stderr = sys.stdout\nwith"))
    assert f"compiling: waiting for another measurement on this host, process {other.pid} " in first_line(waits)
    kill(other)
    assert first_line(waits) == "held"


def test_a_free_host_is_taken_without_a_word_whatever_the_umask(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(locks.LOCK_FOLDER, str(tmp_path))
    old = os.umask(0o077)
    try:
        for _ in range(2):
            with measurement_lock("mine", never):
                pass
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / MEASUREMENT_LOCK).stat().st_mode) == 0o666


def test_a_file_that_cannot_be_locked_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / MEASUREMENT_LOCK).mkdir()
    with (
        pytest.raises(StudyError, match="Is a directory; ask its owner to delete it"),
        measurement_lock("mine", never, tmp_path),
    ):
        pass


def test_a_file_system_without_locks_warns_and_goes_on(tmp_path, monkeypatch, caplog) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with measurement_lock("mine", never, tmp_path):
        pass
    StudyLock(tmp_path).take().release()
    assert "this file system has no locks" in caplog.text


@pytest.mark.parametrize("variable", locks.SCHEDULERS)
def test_a_scheduler_s_job_waits_for_no_measurement(tmp_path, monkeypatch, variable, capsys) -> None:
    monkeypatch.setenv(locks.LOCK_FOLDER, str(tmp_path))
    monkeypatch.setenv(variable, "1")
    with measurement_lock("mine", never), locks.beside_no_measurement("compiling"):
        pass
    assert capsys.readouterr().err == ""


def test_a_variable_names_another_place_which_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locks.LOCK_FOLDER, str(tmp_path / "new" / "folder"))
    with measurement_lock("mine", never):
        assert (tmp_path / "new" / "folder" / MEASUREMENT_LOCK).is_file()
    (tmp_path / "file").touch()
    monkeypatch.setenv(locks.LOCK_FOLDER, str(tmp_path / "file" / "folder"))
    with pytest.raises(StudyError, match="WHICHDEVICE_LOCK_FOLDER: cannot make"), measurement_lock("mine", never):
        pass
