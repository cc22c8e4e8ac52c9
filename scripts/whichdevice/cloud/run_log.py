"""The log of a `tpu run`: on the terminal as it comes, and in a file that names neither project nor address."""

import re
import sys
from pathlib import Path
from types import TracebackType

from whichdevice.cloud.machine import Say
from whichdevice.cloud.order import Order

ADDRESS = re.compile(rb"\b\d{1,3}(?:\.\d{1,3}){3}\b")


class RunLog:
    """Whole lines go to the file, so that nothing to be left out is cut in two."""

    def __init__(self, path: Path, order: Order, say: Say) -> None:
        self._path, self._say = path, say
        self._private = [
            order.project.encode(),
            *([order.vm.service_account.encode()] if order.vm.service_account else []),
        ]
        self._rest = b""

    def __enter__(self) -> "RunLog":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("ab")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._write(str(error).encode() + b"\n")
        self._write(b"\n" if self._rest else b"")
        self._file.close()

    def say(self, line: str) -> None:
        """A line of this program."""
        self._say(line)
        self._write(line.encode() + b"\n")

    def take(self, piece: bytes) -> None:
        """A piece of the machine's log."""
        try:
            sys.stdout.write(piece.decode(errors="replace"))
            sys.stdout.flush()
        except (OSError, ValueError):
            pass  # the terminal is gone; the file goes on
        self._write(piece)

    def _write(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            for private in self._private:
                line = line.replace(private, b"PROJECT")
            try:
                self._file.write(ADDRESS.sub(b"ADDRESS", line) + b"\n")
                self._file.flush()
            except OSError:
                return  # a full disk must not end the study
