"""What comes from outside is no fact of what ran: somebody's kill, a full disk."""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from whichdevice.machine.cpu import is_full
from whichdevice.measuring.supervisor import Finish

TAIL_BYTES = 2**14


def end_from_inside(start: Callable[[], Finish], log: Path, *folders: Path) -> Finish:
    """How a process ended that `start` starts: once more where somebody killed it, which twice is a failure.

    Raises OSError where it failed because a disk, such as that of `folders`, is full: its reason says so, or its log
    where a library crashes on it (HDF5 does), or nothing fits there any more.
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
