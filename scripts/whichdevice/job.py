"""Run the workflow's scripts so that an error is one line on stderr and in the log, with its traceback in the log."""

import errno
import logging
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from whichdevice.errors import StudyError


class LogFile(logging.FileHandler):
    """A log that a full disk cuts short: stderr has the messages too."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Ignore a line that cannot be written."""

    def close(self) -> None:
        """Ignore errors on close."""
        with suppress(OSError):
            super().close()


@contextmanager
def job(log_path: str | Path) -> Iterator[logging.Logger]:
    """Run a script's work; messages to the logger go to stderr and to the log.

    A StudyError becomes SystemExit with its one line (exit status 1). Any other exception leaves its traceback in the
    log and one line that says so.
    """
    path = Path(log_path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        to_file = LogFile(path, mode="w", encoding="utf-8")
    except OSError as error:
        raise SystemExit(f"cannot write the log {path}: {error.strerror}; make room or repair its folder") from None
    logger = logging.getLogger(f"whichdevice.job.{path}")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [to_file, logging.StreamHandler()]
    try:
        yield logger
    except StudyError as error:
        _end(to_file, str(error), str(error))
    except Exception as error:
        line = f"{type(error).__name__}: {' '.join(str(error).split())} (a fault of the program: see {path})"
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            line = f"no room left on the disk ({error.filename or 'while writing'}): make some and run again"
        _end(to_file, traceback.format_exc(), line)
    finally:
        to_file.close()
        logger.handlers = []


def _without_home(text: str) -> str:
    """Paths of a traceback without this machine's folders, which name users."""
    for folder, short in ((Path.cwd(), "."), (Path.home(), "~")):
        text = text.replace(f"{folder}{os.sep}", f"{short}{os.sep}")
    return text


def _end(to_file: logging.Handler, text: str, line: str) -> None:
    to_file.emit(logging.makeLogRecord({"msg": _without_home(text)}))
    raise SystemExit(line) from None
