"""Locks that the kernel releases when their owner dies, however it dies (Linux and macOS)."""

import errno
import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from whichdevice.base.errors import StudyError
from whichdevice.base.files import text_of

STUDY_LOCK = ".lock"
MEASUREMENT_LOCK = "whichdevice-measurement.lock"
LOCK_FOLDER = "WHICHDEVICE_LOCK_FOLDER"  # variable: another place for it, e.g. for tests that need no quiet host
SCHEDULERS = ("SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST")  # variables: this job has its node or its pod from one of them
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
WAIT_LIMIT = 2 * 3600.0  # seconds to wait for another measurement
LOOK_EVERY = 0.2  # seconds between two looks whether it has ended


class StudyLock:
    """One call at a time changes a study's folder. Making the object touches nothing; `take` locks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = FileLock(folder / STUDY_LOCK)

    def take(self) -> "StudyLock":
        """Lock the folder, made if it is missing, for this process; raises StudyError while another has it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _acquire(self._lock, 0)
        except Timeout:
            raise StudyError(
                f"{self.folder} is in use by another call; wait for it, or use another study name"
            ) from None
        except OSError as error:
            why = error.strerror or error
            raise StudyError(f"cannot lock {self.folder}: {why}; check its permissions") from error
        return self

    def release(self) -> None:
        """Let other calls have the folder; the end of the process does the same."""
        self._lock.release()


@contextmanager
def measurement_lock(
    what: str, on_wait: Callable[[str], object], folder: Path | None = None, limit: float = WAIT_LIMIT
) -> Iterator[None]:
    """Wait until no other measurement runs on this host, whoever started it, and let none start in the `with` block.

    `what` names this measurement for those that wait for it. Where this one waits, `on_wait` gets one line: for whom,
    since when. Raises StudyError after `limit` seconds. The file is in /tmp rather than in TMPDIR, which
    differs between users and jobs; WHICHDEVICE_LOCK_FOLDER names another place. Programs that are started meanwhile do
    not inherit the lock, so one that outlives a killed owner keeps nobody waiting.
    """
    path = (folder or _shared_folder()) / MEASUREMENT_LOCK
    lock = FileLock(path, mode=0o666)  # for every user of the host
    try:
        try:
            _acquire(lock, 0)
        except Timeout:
            time.sleep(LOOK_EVERY)  # for the other to write who it is
            on_wait(f"waiting for another measurement on this host, {_owner(path)}")
            _acquire(lock, limit)
    except Timeout:
        raise StudyError(
            f"another measurement on this host has not ended after {limit / 60:.3g} minutes of waiting, "
            f"{_owner(path)}: repeat this command later"
        ) from None
    except OSError as error:
        raise StudyError(f"cannot lock {path}: {error.strerror or error}; ask its owner to delete it") from error
    with suppress(OSError), path.open("r+", encoding="utf-8") as file:  # not "w": /tmp may refuse it on another's file
        file.truncate()
        file.write(f"{os.getpid()} {time.strftime('%Y-%m-%d %H:%M')} {what}")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def beside_no_measurement(what: str) -> Iterator[None]:
    """Take the measurement lock for work that is not timed itself; none in a scheduler's job.

    There a measured run has its node to itself, and waiting would use up the job's own time. That it waits is printed.
    """
    if any(os.environ.get(variable) for variable in SCHEDULERS):
        yield
    else:
        with measurement_lock(what, lambda text: print(f"{what}: {text}", file=sys.stderr)):
            yield


def _acquire(lock: FileLock, limit: float) -> None:
    """Take a lock within `limit` seconds; where the file system has no locks, only warn. Raises Timeout and OSError."""
    try:
        lock.acquire(timeout=limit, poll_interval=LOOK_EVERY)
    except (NotImplementedError, OSError) as error:
        if isinstance(error, Timeout) or (isinstance(error, OSError) and error.errno not in NO_LOCKS):
            raise
        name = lock.lock_file
        logging.getLogger(__name__).warning("%s: this file system has no locks; run one study at a time", name)


def _owner(path: Path) -> str:
    """Return who measures, and since when."""
    text = "".join(letter for letter in text_of(path)[:300] if letter.isprintable())
    written = re.match(r"(\d+) (\S+ \d\d:\d\d) (.+)", text)
    if written is None:
        return f"of an unknown process (fuser {path} names it)"
    pid, since, what = written.groups()
    return f"process {pid} ({what}) since {since}"


def _shared_folder() -> Path:
    """Return where all users of the host find the lock; a folder that the variable names is made."""
    if asked := os.environ.get(LOCK_FOLDER):
        folder = Path(asked)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StudyError(f"{LOCK_FOLDER}: cannot make {folder}: {error.strerror or error}") from error
        return folder
    tmp = Path("/tmp")  # nosec B108  # one lock for all users of the host, made without following links
    return tmp if os.access(tmp, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
