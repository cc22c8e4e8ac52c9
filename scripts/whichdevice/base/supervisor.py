"""Own a measured process: start it, listen, show its progress, end it when it hangs, and know how it ended.

The supervisor imports no framework. Whatever happens to the process, the caller gets a Finish. A kill from outside and
a full disk are not the run's fault: retry after the one, raise on the other.
"""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whichdevice.base.cpu import is_full
from whichdevice.base.files import package_first
from whichdevice.base.memory import MAXRSS_UNIT, available_memory, memory_kills, peak_memory, peak_so_far

OnMessage = Callable[[dict[str, Any]], None]
# They would change what float32 means behind the framework's back.
OVERRIDES = ("NVIDIA_TF32_OVERRIDE", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")
LEAVING_SECONDS = 60.0  # between a process's last word and killing it
GRACE_SECONDS = 5.0  # for its last messages to arrive
DYING_SECONDS = 60.0  # between killing a process and leaving it behind: one that waits in the kernel cannot die
NEARLY_ALL = 0.8  # of the memory that was there: a killed process that held more was killed for it, whoever did it


@dataclass(frozen=True)
class Finish:
    """How a process ended: its last word if it had one, else what the system says."""

    status: str
    reason: str | None
    peak_memory: int | None  # bytes; None where the process was left behind
    killed: bool = False  # by somebody, and not for lack of memory


def supervise_module(
    module: str, job: str, variables: dict[str, str], log: Path, timeout: float, on_message: OnMessage, **options: Any
) -> Finish:
    """Run `python -m module` of this package on a job, the text of a file that lasts as long as the process.

    `options` are passed on to `supervise`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "job.json"
        file.write_text(job, encoding="utf-8")
        command = [sys.executable, "-m", module, str(file)]
        return supervise(command, {**variables, **package_first()}, log, timeout, on_message, **options)


def supervise(
    command: list[str],
    environment: dict[str, str],
    log: Path,
    timeout: float,
    on_message: OnMessage,
    on_minute: Callable[[], None] = lambda: None,
    by_phase: bool = False,
    limit_name: str = "",
) -> Finish:
    """Run one process to its end; its own output goes to `log`, its messages to `on_message`.

    The process writes messages to the file descriptor that WHICHDEVICE_EVENTS names. `by_phase`: the time limit is of
    each phase that it reports, not of all of them together. `limit_name` is the limit's config key, for the reason of
    a process that exceeds it.
    """
    read_end, write_end = os.pipe()
    kills, available = memory_kills(), available_memory()
    inherited = {name: value for name, value in os.environ.items() if name not in OVERRIDES}
    variables = {**inherited, **environment, "WHICHDEVICE_EVENTS": str(write_end)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=variables,
            pass_fds=[write_end],
            start_new_session=True,
        )
    os.close(write_end)
    last: list[dict[str, Any]] = []
    limit = _Limit(timeout)

    def heard(message: dict[str, Any]) -> None:
        if by_phase and message.get("event") == "progress":
            limit.begin()
        on_message(message)

    listener = threading.Thread(target=_listen, args=(read_end, heard, last), daemon=True)
    listener.start()
    try:
        hung, code, peak = _wait(process, limit, on_minute, last)
    except BaseException:  # interrupted: leave nothing behind
        _kill(process)
        raise
    listener.join(GRACE_SECONDS)
    short = memory_kills() > kills or (peak or 0) > NEARLY_ALL * available
    after = f"{limit_name} = {timeout:g} s" if limit_name else f"{timeout:g} s"
    return _finish(last[-1] if last else None, hung, code, peak, after, short)


def _listen(read_end: int, on_message: OnMessage, last: list[dict[str, Any]]) -> None:
    with os.fdopen(read_end, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            try:
                message = json.loads(line)
            except json.JSONDecodeError:  # cut by a kill
                continue
            if message.get("event") == "end":
                last.append(message)
            else:
                on_message(message)


class _Limit:
    """The time until which a process may run."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.begin()

    def begin(self) -> None:
        """Start the time anew."""
        self.until = time.monotonic() + self._seconds


def _wait(
    process: subprocess.Popen, limit: _Limit, on_minute: Callable[[], None], last: list[dict[str, Any]]
) -> tuple[bool, int | None, int | None]:
    """Return whether it hung, its exit code (negative: signal) and its peak resident memory in bytes.

    Once it has said its last word it has `LEAVING_SECONDS` to go: a framework may hang where it is torn down. Code and
    memory are None where it is still there `DYING_SECONDS` after it was killed. The system counts what this process
    held when the other began as held by that one, too: only a larger number is the other's.
    """
    next_minute = time.monotonic() + 60
    hung = leaving = False
    peak = 0
    while True:
        peak = max(peak, peak_so_far(process.pid))
        if last and not leaving:
            leaving, limit.until = True, min(limit.until, time.monotonic() + LEAVING_SECONDS)
        if time.monotonic() > next_minute:
            next_minute += 60
            on_minute()
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            _kill_group(process.pid)
            counted = usage.ru_maxrss * MAXRSS_UNIT
            return hung, process.returncode, peak if peak and counted <= peak_memory() else counted
        if time.monotonic() > limit.until:
            if hung:
                return hung, None, None
            hung, limit.until = True, time.monotonic() + DYING_SECONDS
            _kill_group(process.pid)
        time.sleep(0.05)


def _kill(process: subprocess.Popen) -> None:
    _kill_group(process.pid)
    if process.returncode is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(DYING_SECONDS)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # already gone
        os.killpg(group, signal.SIGKILL)


def _finish(
    last: dict[str, Any] | None, hung: bool, code: int | None, peak: int | None, after: str, short: bool
) -> Finish:
    if last is not None:
        return Finish(last["status"], last["reason"], peak)
    if hung or code is None:
        left = "" if code is not None else f" (still there {DYING_SECONDS:g} s later, waiting in the kernel: see dmesg)"
        return Finish("timed_out", f"still running after {after}; killed{left}", peak)
    if code == -signal.SIGKILL and short:
        return Finish("out_of_memory", "killed by the system (signal 9) for lack of memory", peak)
    if code == -signal.SIGKILL:
        return Finish("failed", "killed from outside (signal 9), not for lack of memory", peak, killed=True)
    if code < 0:
        return Finish("failed", f"the process crashed: {signal.Signals(-code).name}", peak)
    return Finish("failed", f"the process ended without a result (exit code {code}); see its log", peak)


TAIL_BYTES = 2**14


def end_from_inside(start: Callable[[], Finish], log: Path, *folders: Path) -> Finish:
    """Start a process and return how it ended; one that somebody killed is started again, a second kill fails.

    Raises OSError where it failed because a disk, such as the one of `folders`, is full: its reason says so, or its log
    where a library crashes on it (HDF5 does), or nothing more fits there.
    """
    finish = start()
    if finish.killed:
        finish = start()
        if finish.killed:
            finish = replace(finish, reason=f"{finish.reason}, twice")
    if finish.status in ("failed", "out_of_memory") and is_full(f"{finish.reason}\n{_end_of(log)}", *folders):
        raise OSError(errno.ENOSPC, f"no room left on the disk ({finish.reason}): make some and run again")
    return finish


def _end_of(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
