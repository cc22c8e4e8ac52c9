"""The one exception type that a person is meant to read, and what words its one line."""

import difflib
import errno
import re
import reprlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
# As Python, PyTorch, TensorFlow, XLA, CUDA, cuBLAS and cuDNN say it: whole words, as RandomZoom is no "oom".
NO_MEMORY = re.compile(
    r"\b((?i:memoryerror|bad_alloc|\w*alloc_failed|out[_ ]of[_ ]memory|resource[_ ]exhausted|resource allocation failed"
    r"|(can't|cannot|could not|failed to|unable to) allocate)|OOM)\b"
)
SHORT = reprlib.Repr()  # of nested lists only the beginning
SHORT.maxstring = SHORT.maxlong = SHORT.maxother = 2000


class StudyError(Exception):
    """A fault that the person at the keyboard can fix.

    Its text is one line: what is wrong, where, and what to do. Entry points print it and exit
    non-zero; the traceback goes to a log at most.
    """

    def __str__(self) -> str:
        return one_line(super().__str__())


def one_line(text: str) -> str:
    """Text fit for a terminal: records and configs of other people may hold what moves its cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, without the file that the system's errors name; else its type."""
    return str(getattr(error, "strerror", None) or error or type(error).__name__).splitlines()[0]


def did_you_mean(wrong: object, right: Iterable[object], prefix: str = "", kind: str = "there are") -> str:
    """`; did you mean x?` for a near miss, else the list of what there is."""
    known = [str(name) for name in right]
    near = nearest(str(wrong), known)
    return hint(f"{prefix}{near}") if near else f"; {kind} {', '.join(known)}"


def nearest(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return the known name that is most like one, if one is so much like it."""
    return next(iter(difflib.get_close_matches(name, [*known], 1, least)), None)


def hint(near: object) -> str:
    """Return the end of a message that proposes a name; empty where there is none."""
    return f"; did you mean {near}?" if near else ""


def brief(value: object) -> str:
    """A value as a person wrote it, on one line, cut when it is long."""
    text = str(value).lower() if isinstance(value, bool) else SHORT.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def or_exit(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function for the Snakefile: an error that a person can fix ends the process with its one line."""
    try:
        return function(*arguments)
    except StudyError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        room = ": make some and make the same call again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        sys.exit(f"error: {error.filename or Path.cwd()}: {error.strerror or error}{room}")


def lacks_memory(error: BaseException) -> bool:
    """Whether an error is of a lack of host or device memory, by its type or words; another process may hold it."""
    return isinstance(error, MemoryError) or NO_MEMORY.search(str(error)) is not None
