"""Locks between processes, also when their owner is killed."""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whichdevice
from whichdevice import locks
from whichdevice.errors import StudyError

SCRIPTS = str(Path(whichdevice.__file__).parents[1])
HEAD = "import os, subprocess, sys, time\nfrom pathlib import Path\nfrom whichdevice.locks import *\n"
Owner = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def owner() -> Iterator[Owner]:
    """Starts a process that runs some code, says what it prints first and then sleeps."""
    processes = []

    def start(code: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", f"{HEAD}{code}\nprint('held', flush=True)\ntime.sleep(60)"],
            env={**os.environ, "PYTHONPATH": SCRIPTS},
            stdout=subprocess.PIPE,
            text=True,
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


def test_a_study_in_use_is_refused_in_one_line(tmp_path: Path, owner: Owner) -> None:
    other = owner(f"lock = StudyLock(Path({str(tmp_path)!r})).take()")
    assert first_line(other) == "held"
    with pytest.raises(StudyError) as error:
        locks.StudyLock(tmp_path).take()
    assert str(error.value) == f"{tmp_path} is in use by another call; wait for it, or use another study name"


def test_making_the_lock_touches_nothing(tmp_path: Path) -> None:
    locks.StudyLock(tmp_path / "study")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_owner_frees_the_study(tmp_path: Path, owner: Owner) -> None:
    other = owner(f"lock = StudyLock(Path({str(tmp_path)!r})).take()")
    assert first_line(other) == "held"
    kill(other)
    locks.StudyLock(tmp_path).take().release()


@pytest.mark.parametrize(
    "lock", ["lock = StudyLock(Path({0!r})).take()", "held = measurement_lock(print, Path({0!r})); held.__enter__()"]
)
def test_a_program_that_outlives_its_killed_owner_holds_nothing(tmp_path: Path, owner: Owner, lock: str) -> None:
    child = "child = subprocess.Popen(['sleep', '60'], close_fds=False); print(child.pid, flush=True)"
    other = owner(f"{lock.format(str(tmp_path))}\n{child}")
    survivor = int(first_line(other))
    try:
        assert first_line(other) == "held"
        kill(other)
        os.kill(survivor, 0)  # still there
        waits: list[str] = []
        locks.StudyLock(tmp_path).take().release()
        with locks.measurement_lock(lambda: waits.append("waits"), tmp_path):
            assert waits == []
    finally:
        os.kill(survivor, signal.SIGKILL)


def test_release_frees_and_may_be_repeated(tmp_path: Path) -> None:
    lock = locks.StudyLock(tmp_path / "new/folder").take()
    lock.release()
    lock.release()
    locks.StudyLock(tmp_path / "new/folder").take()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match=r"cannot lock .*file/study: Not a directory"):
        locks.StudyLock(tmp_path / "file/study").take()


def test_a_measurement_waits_for_another_and_says_so_once(tmp_path: Path, owner: Owner) -> None:
    messages: list[str] = []
    other = owner(f"lock = measurement_lock(print, Path({str(tmp_path)!r})); lock.__enter__()")
    assert first_line(other) == "held"
    got = threading.Event()

    def measure() -> None:
        with locks.measurement_lock(lambda: messages.append("waits"), tmp_path):
            got.set()

    thread = threading.Thread(target=measure, daemon=True)
    thread.start()
    assert not got.wait(0.3)
    assert messages == ["waits"]
    kill(other)
    assert got.wait(5)
    thread.join()
    assert messages == ["waits"]


def test_a_free_host_is_taken_without_a_word(tmp_path: Path) -> None:
    messages: list[str] = []
    for _ in range(2):
        with locks.measurement_lock(lambda: messages.append("waits"), tmp_path):
            pass
    assert messages == []


def test_the_file_is_open_to_all_users_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        with locks.measurement_lock(print, tmp_path):
            pass
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / locks.MEASUREMENT_LOCK).stat().st_mode) == 0o666


def test_a_file_of_another_user_is_locked_without_writing_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with fs.protected_regular in a sticky folder: another's file opens for reading and never with O_CREAT."""
    (tmp_path / locks.MEASUREMENT_LOCK).touch()
    real = os.open

    def protected(path: str, flags: int, *mode: int) -> int:
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *mode)

    monkeypatch.setattr(locks.os, "open", protected)
    with locks.measurement_lock(print, tmp_path):
        pass


def test_a_file_closed_to_us_is_an_error_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(locks.os, "open", closed)
    monkeypatch.setattr(locks, "OPEN_PATIENCE", 0.05)
    with (
        pytest.raises(StudyError, match="Permission denied; ask its owner to delete it"),
        locks.measurement_lock(print, tmp_path),
    ):
        pass


def test_a_planted_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / locks.MEASUREMENT_LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StudyError, match="delete it"), locks.measurement_lock(print, tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_was_cleared_away_while_waiting_is_not_taken_for_the_lock(tmp_path: Path, owner: Owner) -> None:
    """Else the waiter would hold the deleted file and a newcomer a new one, both at once."""
    other = owner(f"lock = measurement_lock(print, Path({str(tmp_path)!r})); lock.__enter__()")
    assert first_line(other) == "held"
    waiting, has, done = threading.Event(), threading.Event(), threading.Event()

    def measure() -> None:
        with locks.measurement_lock(waiting.set, tmp_path):
            has.set()
            done.wait(5)

    first = threading.Thread(target=measure, daemon=True)
    first.start()
    assert waiting.wait(5)
    (tmp_path / locks.MEASUREMENT_LOCK).unlink()
    kill(other)
    assert has.wait(5) and (tmp_path / locks.MEASUREMENT_LOCK).exists()
    waits = threading.Event()

    def newcomer() -> None:
        with locks.measurement_lock(waits.set, tmp_path):
            pass

    second = threading.Thread(target=newcomer, daemon=True)
    second.start()
    assert waits.wait(5)
    done.set()
    second.join(5)


def test_a_file_system_without_locks_warns_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(locks.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", unsupported)
    with locks.measurement_lock(print, tmp_path):
        pass
    locks.StudyLock(tmp_path).take().release()
    assert "this file system has no locks" in caplog.text


@pytest.mark.parametrize("variable", locks.SCHEDULERS)
def test_a_scheduler_s_job_waits_for_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(locks.LOCK_FOLDER, str(tmp_path))
    monkeypatch.setenv(variable, "1")
    with locks.measurement_lock(print), locks.beside_no_measurement(print):
        pass


def test_a_variable_names_another_place_which_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locks.LOCK_FOLDER, str(tmp_path / "new" / "folder"))
    with locks.measurement_lock(lambda: pytest.fail("nobody has it")):
        assert (tmp_path / "new" / "folder" / locks.MEASUREMENT_LOCK).is_file()
    (tmp_path / "file").touch()
    monkeypatch.setenv(locks.LOCK_FOLDER, str(tmp_path / "file" / "folder"))
    with pytest.raises(StudyError, match="WHICHDEVICE_LOCK_FOLDER: cannot make"), locks.measurement_lock(lambda: None):
        pass
