"""Locks that the kernel releases when their owner dies, however it dies (Linux and macOS)."""

import contextlib
import errno
import fcntl
import logging
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from whichdevice.errors import StudyError

STUDY_LOCK = ".lock"
MEASUREMENT_LOCK = "whichdevice-measurement.lock"
LOCK_FOLDER = "WHICHDEVICE_LOCK_FOLDER"  # variable: another place for it, e.g. for tests that need no quiet host
SCHEDULED = "WHICHDEVICE_SCHEDULED"  # variable: a scheduler gave this job its place and its time
UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
OPEN_PATIENCE = 1.0  # seconds for another user to finish making the file

_held: "set[Lock]" = set()


class Lock:
    """A held lock; ends with `release()`, a `with` block or the process.

    Children never share it: a started program closes the file (close-on-exec), a forked one at its start. So one
    that outlives a killed owner keeps nobody waiting.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        _held.add(self)

    def release(self) -> None:
        """Give the lock back; once is enough. The file stays, as deleting it could split the lock in two."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _release_in_child() -> None:
    for lock in list(_held):
        lock.release()  # closes the child's copy only


os.register_at_fork(after_in_child=_release_in_child)


def study_lock(folder: Path) -> Lock:
    """Lock a study's folder for this process, made if it is missing; raises StudyError when another holds it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / STUDY_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StudyError(f"cannot lock {folder}: {error.strerror or error}; check its permissions") from error
    if not _try(descriptor, folder):
        owner = os.read(descriptor, 32).decode("ascii", "replace").strip()
        os.close(descriptor)
        process = f" (process {owner})" if owner.isdigit() else ""
        raise StudyError(f"{folder} is in use by another study{process}; wait for it or use another study name")
    with contextlib.suppress(OSError):  # a full disk costs others the number, not us the lock
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    return Lock(descriptor)


def measurement_lock(on_wait: Callable[[], object], folder: Path | None = None) -> Lock:
    """Wait until no other measurement runs on this host, whoever started it, and hold the place.

    `on_wait` is called once if there is something to wait for. The file lies in /tmp rather than in
    TMPDIR, which differs between users and jobs; WHICHDEVICE_LOCK_FOLDER names another place.
    """
    path = (folder or _shared_folder()) / MEASUREMENT_LOCK
    told = False
    while True:
        descriptor = _open_shared(path)
        try:
            if not _try(descriptor, path):
                if not told:
                    on_wait()
                    told = True
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_current(descriptor, path):
                return Lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the file was cleared away meanwhile: a newcomer would lock a new one


def beside_no_measurement(on_wait: Callable[[], object]) -> AbstractContextManager[object]:
    """The measurement lock for work that is not timed itself; none in a scheduler's job.

    There a measured run has its node to itself, and waiting would use up the job's own time.
    """
    return contextlib.nullcontext() if os.environ.get(SCHEDULED) else measurement_lock(on_wait)


def _shared_folder() -> Path:
    if asked := os.environ.get(LOCK_FOLDER):
        return Path(asked)
    tmp = Path("/tmp")  # nosec B108  # one lock for all users of the host, made without following links
    return tmp if os.access(tmp, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _try(descriptor: int, what: Path) -> bool:
    """Take the lock if it is free. A file system without locks cannot stop the work: it only warns."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise StudyError(f"cannot lock {what}: {error.strerror or error}") from error
        logging.getLogger(__name__).warning("%s: this file system has no locks; run one study at a time", what)
    return True


def _open_shared(path: Path) -> int:
    """Open a file that any user may have made, read-only: that suffices for flock.

    First without O_CREAT: with fs.protected_regular Linux refuses O_CREAT on another user's file in a sticky folder.
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
