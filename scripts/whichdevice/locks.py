"""Locks that the kernel releases when their owner dies, however it dies (Linux and macOS)."""

import errno
import fcntl
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

from whichdevice.errors import StudyError

STUDY_LOCK = ".lock"
MEASUREMENT_LOCK = "whichdevice-measurement.lock"
LOCK_FOLDER = "WHICHDEVICE_LOCK_FOLDER"  # variable: another place for it, e.g. for tests that need no quiet host
SCHEDULERS = ("SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST")  # variables: this job has its node or its pod from one of them
UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
OPEN_PATIENCE = 1.0  # seconds for another user to finish making the file
WAIT_LIMIT = 2 * 3600.0  # seconds to wait for another measurement
LOOK_EVERY = 0.2  # seconds between two looks whether it has ended


class StudyLock:
    """One call at a time changes a study's folder. Making the object touches nothing; `take` locks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = FileLock(folder / STUDY_LOCK, timeout=0)

    def take(self) -> "StudyLock":
        """Lock the folder, made if it is missing, for this process; raises StudyError while another has it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise StudyError(
                f"{self.folder} is in use by another call; wait for it, or use another study name"
            ) from None
        except NotImplementedError:
            _warn_no_locks(self.folder)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                why = error.strerror or error
                raise StudyError(f"cannot lock {self.folder}: {why}; check its permissions") from error
            _warn_no_locks(self.folder)
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
    descriptor = _open_shared(path)
    try:
        _take(descriptor, path, on_wait, limit)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            os.close(descriptor)
            raise StudyError(f"cannot lock {path}: {error.strerror or error}") from error
        _warn_no_locks(path)
    except BaseException:  # interrupted while it waited
        os.close(descriptor)
        raise
    try:
        if _is_current(descriptor, path):
            _write_owner(what, path)
            yield
            return
    finally:
        os.close(descriptor)
    # The file was deleted meanwhile: a newcomer would lock a new one.
    with measurement_lock(what, on_wait, folder, limit):
        yield


@contextmanager
def beside_no_measurement(what: str) -> Iterator[None]:
    """The measurement lock for work that is not timed itself; none in a scheduler's job.

    There a measured run has its node to itself, and waiting would use up the job's own time. That it waits is printed.
    """
    if any(os.environ.get(variable) for variable in SCHEDULERS):
        yield
    else:
        with measurement_lock(what, lambda text: print(f"{what}: {text}", file=sys.stderr)):
            yield


def _take(descriptor: int, path: Path, on_wait: Callable[[str], object], limit: float) -> None:
    end = time.monotonic() + limit
    announced = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not announced:
                time.sleep(LOOK_EVERY)  # for the other to write who it is
                on_wait(f"waiting for another measurement on this host, {_owner(descriptor, path)}")
                announced = True
        if time.monotonic() > end:
            raise StudyError(
                f"another measurement on this host has not ended after {limit / 60:.3g} minutes of waiting, "
                f"{_owner(descriptor, path)}: repeat this command later"
            )
        time.sleep(LOOK_EVERY)


def _write_owner(what: str, path: Path) -> None:
    """Write who measures into the file, for those that wait; another user's file may refuse it."""
    text = f"{os.getpid()} {time.strftime('%Y-%m-%d %H:%M')} {what}"
    with suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def _owner(descriptor: int, path: Path) -> str:
    """Who measures, and since when."""
    text = os.pread(descriptor, 300, 0).decode("utf-8", "replace")
    found = re.match(r"(\d+) (\S+ \d\d:\d\d) (.+)", "".join(letter for letter in text if letter.isprintable()))
    if found is None:
        return f"of an unknown process (fuser {path} names it)"
    pid, since, what = found.groups()
    return f"process {pid} ({what}) since {since}"


def _warn_no_locks(what: Path) -> None:
    """A file system without locks cannot stop the work."""
    logging.getLogger(__name__).warning("%s: this file system has no locks; run one study at a time", what)


def _shared_folder() -> Path:
    """Where all users of the host find the lock; a folder that the variable names is made."""
    if asked := os.environ.get(LOCK_FOLDER):
        folder = Path(asked)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StudyError(f"{LOCK_FOLDER}: cannot make {folder}: {error.strerror or error}") from error
        return folder
    tmp = Path("/tmp")  # nosec B108  # one lock for all users of the host, made without following links
    return tmp if os.access(tmp, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _open_shared(path: Path) -> int:
    """Open a file that any user may have made, read-only: that suffices for flock.

    First without O_CREAT: with fs.protected_regular Linux refuses O_CREAT on another user's file in a sticky folder,
    which is why the study's kind of lock would not do here.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    end = time.monotonic() + OPEN_PATIENCE
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        except OSError as error:  # its owner may be about to open it to all
            if not isinstance(error, PermissionError) or time.monotonic() > end:
                raise StudyError(
                    f"cannot open {path}: {error.strerror or error}; ask its owner to delete it"
                ) from error
            time.sleep(0.02)
            continue
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(descriptor, 0o666)  # nosec B103  # past the umask
            return descriptor
        except FileExistsError:
            continue  # somebody else made it just now
        except OSError as error:
            raise StudyError(f"cannot make {path}: {error.strerror or error}") from error


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
