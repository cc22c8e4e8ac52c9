"""The one exception type that a person is meant to read, and the one line that they read."""

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


class StudyError(Exception):
    """A fault that the person at the keyboard can mend.

    Its text is one line: what is wrong, where, and what to do. Entry points print it and exit
    non-zero; the traceback goes to a log at most.
    """

    def __str__(self) -> str:
        return one_line(super().__str__())


def one_line(text: str) -> str:
    """Text fit for a terminal: records and configs of other people may hold what moves its cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def or_exit(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function for the Snakefile: an error that a person can fix ends the process with its one line."""
    try:
        return function(*arguments)
    except StudyError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        room = ": make some and make the same call again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        sys.exit(f"error: {error.filename or Path.cwd()}: {error.strerror or error}{room}")
