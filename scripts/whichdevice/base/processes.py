"""End processes with their parent and scripts with one line, import frameworks quickly."""

import errno
import gc
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import IO, Any

from whichdevice.base.errors import StudyError
from whichdevice.base.terminal import ERASE

POLL_SECONDS = 0.5
# Keras imports these when it finds them and a run needs none: 2 of 7 s of start-up on two cores.
UNNEEDED = ("pandas", "matplotlib", "IPython", "tensorboard")


def supervised_job() -> tuple[Any, IO[str]]:
    """Return the job of this process, from the file that its first argument names, and the stream to its supervisor.

    The process ends with its supervisor.
    """
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    stream = os.fdopen(int(os.environ["WHICHDEVICE_EVENTS"]), "w", encoding="utf-8")
    end_with_supervisor()
    return job, stream


def end_with_supervisor() -> None:
    """Leave at once when standard input closes, as it does when the supervisor that holds its other end dies.

    Whatever else reads standard input from now on finds it empty: nobody answers.
    """
    held = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)

    def watch() -> None:
        os.read(held, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def stop_with_parent(starter: int) -> None:
    """Be sent SIGTERM when the parent is gone: Snakemake may be killed without a chance to end its jobs.

    `starter` is the number of Snakemake's own process. It may have ended before this is called: then it is no longer
    above this one.
    """
    import psutil  # here: the measured process imports this file without needing psutil

    parent = os.getppid()
    orphan = starter not in [process.pid for process in psutil.Process().parents()]

    def watch() -> None:
        while not orphan and os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


class _Absent(MetaPathFinder, Loader):
    """Imports no package of these names, and leaves nothing in `sys.modules` in place of one."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A spec without a file for an absent package: PyTorch looks for specs and catches no error there."""
        return ModuleSpec(name, self) if name in self.names else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Raise ModuleNotFoundError."""
        raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)


@contextmanager
def quick_imports(*others: str) -> Iterator[None]:
    """Make optional packages look absent and keep the collector quiet while a framework is imported.

    `others` are further ones, e.g. a framework that Keras would import beside the one of the run.
    """
    absent = _Absent({*UNNEEDED, *others})
    sys.meta_path.insert(0, absent)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        sys.meta_path.remove(absent)


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

    A StudyError becomes SystemExit with its one line (exit status 1), an interrupt one without a word (130). Any other
    exception leaves its traceback in the log and one line that says so.
    """
    path = Path(log_path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        to_file = LogFile(path, mode="w", encoding="utf-8")
    except OSError as error:
        raise SystemExit(f"cannot write the log {path}: {error.strerror}; make room or repair its folder") from None
    logger = logging.getLogger(f"whichdevice.base.processes.{path}")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    to_stderr = logging.StreamHandler()
    if to_stderr.stream.isatty():  # the live line of the study is there
        to_stderr.setFormatter(logging.Formatter(f"{ERASE}%(message)s"))
    logger.handlers = [to_file, to_stderr]
    try:
        yield logger
    except StudyError as error:
        _end(to_file, str(error), str(error))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        line = f"{type(error).__name__}: {' '.join(str(error).split())} (a fault of the program: see {path})"
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            line = f"no room left on the disk ({error.filename or 'while writing'}): make some and run again"
        _end(to_file, traceback.format_exc(), line)
    finally:
        to_file.close()
        logger.handlers = []


def _end(to_file: logging.Handler, text: str, line: str) -> None:
    """End with one line; the text goes to the log, without this machine's folders, which name users."""
    for folder, short in ((Path.cwd(), "."), (Path.home(), "~")):
        text = text.replace(f"{folder}{os.sep}", f"{short}{os.sep}")
    to_file.emit(logging.makeLogRecord({"msg": text}))
    raise SystemExit(line) from None
