"""Ask a person for consent, and show one line that changes while work goes on; plain lines without a terminal."""

import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO

from whichdevice.base.errors import StudyError, one_line

EVERY_SECONDS = 0.5
ERASE = "\r\033[2K"  # the line's text, on a terminal
MIN_COLUMNS = 40


def wrapped(lines: Iterable[str]) -> list[str]:
    """Lines broken between words for the terminal of standard error; whole ones where that is none."""
    if not sys.stderr.isatty():
        return list(lines)
    width = max(shutil.get_terminal_size().columns, MIN_COLUMNS)
    return [part for line in lines for part in textwrap.wrap(line, width, break_on_hyphens=False) or [""]]


def agree(question: str, yes: bool) -> None:
    """Ask y/N unless `yes`; raises StudyError on any answer but y, and where nobody can be asked."""
    if not yes and not sys.stdin.isatty():
        raise StudyError(f"{question} Nobody can be asked here: add --yes")
    try:
        answer = "y" if yes else input(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise StudyError("Nothing was done.")


class LiveLine:
    """A line that is written over by the next one. Nothing is written where the stream is no terminal, but for `line`.

    `text` is called twice a second by a thread, between `start` and `stop`. A closed terminal is no reason to fail.
    """

    def __init__(self, text: Callable[[], str], stream: IO[str] | None = None) -> None:
        self._text, self._stream = text, stream or sys.stderr
        self.live = self._stream.isatty()
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self.rows = 0  # of the terminal, that lines which stay take

    def start(self) -> "LiveLine":
        """Show the line, and again as time goes on."""
        if self.live and self._thread is None:
            self._thread = threading.Thread(target=self._repeat, daemon=True)
            self._thread.start()
        return self

    def line(self, text: str) -> None:
        """Print a line that stays."""
        text = one_line(text)
        self.rows += self.live * -(-len(text) // max(shutil.get_terminal_size().columns, 1))
        with self._lock:
            self._write((ERASE if self.live else "") + text + "\n")

    def above(self, write: Callable[[], object]) -> None:
        """Let somebody write where the line is, which moves below it."""
        with self._lock:
            self._write(ERASE * self.live)
            write()

    def stop(self) -> None:
        """Remove the line."""
        self._stopped.set()
        if self.live:
            with self._lock:
                self._write(ERASE)

    def __enter__(self) -> "LiveLine":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _repeat(self) -> None:
        while not self._stopped.is_set():
            text = one_line(self._text())[: shutil.get_terminal_size().columns - 1]
            with self._lock:
                if not self._stopped.is_set():
                    self._write(f"{ERASE}{text}")
            self._stopped.wait(EVERY_SECONDS)

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


class Countdown:
    """How long a number of pieces of work still takes, by those that are finished."""

    def __init__(self, pieces: int, guess: float) -> None:
        self.pieces, self.done = pieces, 0
        self._guess, self._began = guess, time.monotonic()

    def finish(self) -> None:
        """One piece is finished."""
        self.done += 1

    @property
    def left(self) -> float:
        """Seconds; by the guess for one piece until the first one is finished."""
        passed = time.monotonic() - self._began
        if not self.done:
            return max(self.pieces * self._guess - passed, self._guess / 2) if self.pieces else 0.0
        return (self.pieces - self.done) * passed / self.done
