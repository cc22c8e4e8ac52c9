"""However a measured process ends, its supervisor says so and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from whichdevice.base import supervisor
from whichdevice.base.supervisor import supervise

MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
SCRIPTS = Path(__file__).parents[2] / "scripts"
PRELUDE = """
import json, os, sys, time
stream = os.fdopen(int(os.environ["WHICHDEVICE_EVENTS"]), "w")
def say(**message):
    stream.write(json.dumps(message) + "\\n"); stream.flush()
"""


@pytest.fixture
def run(tmp_path):
    def start(body: str, timeout: float = 20.0):
        messages = []
        command = [sys.executable, "-c", PRELUDE + textwrap.dedent(body)]
        return supervise(command, {}, tmp_path / "log", timeout, messages.append), messages

    return start


def test_a_hung_run_is_killed_and_timed_out(run):
    finish, messages = run("say(event='part', place='cold', value={}); time.sleep(60)", timeout=2.0)
    assert finish.status == "timed_out"
    assert finish.reason == "still running after 2 s; killed"
    assert len(messages) == 1  # what was known before is kept


def test_a_run_that_hangs_after_its_last_word_has_said_it(run, monkeypatch):
    monkeypatch.setattr(supervisor, "LEAVING_SECONDS", 0.3)
    began = time.monotonic()
    finish, _ = run("say(event='end', status='ok', reason=None); time.sleep(60)")
    assert (finish.status, finish.reason) == ("ok", None)
    assert time.monotonic() - began < 50


def test_a_killed_run_is_out_of_memory_where_the_kernel_counted_a_kill(run, monkeypatch):
    kills = iter([7, 8])
    monkeypatch.setattr(supervisor, "memory_kills", lambda: next(kills))
    finish, _ = run("os.kill(os.getpid(), 9)")
    assert (finish.status, finish.killed) == ("out_of_memory", False)


def test_a_killed_run_is_out_of_memory_where_it_held_nearly_all_of_it(run, monkeypatch):
    monkeypatch.setattr(supervisor, "available_memory", lambda: 50e6)
    finish, _ = run("held = b'1' * 45_000_000; time.sleep(0.3); os.kill(os.getpid(), 9)")
    assert (finish.status, finish.killed) == ("out_of_memory", False)


@pytest.mark.needs("linux")
@pytest.mark.parametrize(("own", "held"), [(100e6, 500e6), (400e6, 100e6)], ids=["more", "less"])
def test_the_peak_of_a_process_that_died_is_its_own(run, own, held):
    mine = b"1" * int(own)  # what this process holds is no part of it
    finish, _ = run(f"held = b'1' * {int(held)}; time.sleep(0.3); os._exit(3)")
    assert finish.status == "failed" and held < finish.peak_memory < held + 100e6 and mine


def test_a_run_killed_by_somebody_was_killed_from_outside(run):
    finish, _ = run("os.kill(os.getpid(), 9)")
    assert (finish.status, finish.killed) == ("failed", True)
    assert "killed from outside (signal 9)" in finish.reason


@pytest.mark.needs("memory groups")
def test_what_the_kernel_kills_for_memory_is_out_of_memory(run):
    group = MEMORY_GROUPS / f"whichdevice-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(2**27))
        enter = f"open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()));"
        finish, _ = run(f"{enter} held = b'1' * 2**29; say(event='end', status='ok', reason=None)")
    finally:
        group.rmdir()
    assert (finish.status, finish.killed) == ("out_of_memory", False)
    assert "for lack of memory" in finish.reason


def test_a_crash_names_its_signal(run):
    finish, _ = run("os.kill(os.getpid(), 11)")
    assert (finish.status, finish.reason) == ("failed", "the process crashed: SIGSEGV")


def test_an_end_without_a_word_is_a_failure(run, tmp_path):
    finish, _ = run("print('boom'); sys.exit(3)")
    assert finish.status == "failed"
    assert "exit code 3" in finish.reason
    assert "boom" in (tmp_path / "log").read_text()


def test_a_message_cut_by_a_kill_is_not_taken(run):
    finish, messages = run('stream.write(\'{"event": "par\'); stream.flush(); os.kill(os.getpid(), 9)')
    assert messages == []
    assert (finish.status, finish.killed) == ("failed", True)


def test_children_of_a_run_do_not_outlive_it(run, tmp_path):
    run(f"""
        import subprocess
        child = subprocess.Popen(["sleep", "60"])
        open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
        say(event="end", status="ok", reason=None)
    """)
    time.sleep(0.2)
    pid = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_measured_process_ends_when_its_supervisor_is_killed(tmp_path):
    body = (
        "from whichdevice.base.processes import end_with_supervisor; import os, time;"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); end_with_supervisor(); time.sleep(60)"
    )
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib; from whichdevice.base.supervisor import supervise;"
            f"supervise([sys.executable, '-c', {body!r}], {{}}, pathlib.Path({str(tmp_path / 'log')!r}), 60, print)",
        ],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
    )
    deadline = time.monotonic() + 15
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    pid = int((tmp_path / "pid").read_text())
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the measured process lives on"
        time.sleep(0.05)
    assert (tmp_path / "log").exists()
