"""Send what a process finds, and how it ends, to its supervisor: one JSON object a line through a pipe.

The supervisor keeps what has arrived, so that a process which is killed half-way still leaves a record.
"""

import json
import re
from collections.abc import Sequence
from math import prod
from typing import IO, Any

from pydantic import BaseModel

ASKED = re.compile(r"OOM|out of memory|allocat", re.IGNORECASE)
TENSOR = re.compile(r"shape\[([\d,]+)\] and type (\w+)")  # TensorFlow names no bytes
WIDTHS = {"double": 8, "int64": 8, "float": 4, "int32": 4, "half": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1}
NOISE = re.compile(r"\{\{[^}]*\}\}|\[Op:.*")  # TensorFlow's names of its parts
PREAMBLE = ("Graph execution error:", "Detected at node", "  File ")


def reason_line(error: BaseException) -> str:
    """Type and message in one line: the line that names a size, else the first that is not TensorFlow's traceback."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith(PREAMBLE)]
    usual = lines[-1 if str(error).startswith("in user code:") else 0] if lines else ""  # AutoGraph names it last
    line = next((line for line in lines if ASKED.search(line)), usual)
    line = NOISE.sub("", line).strip()
    if (tensor := TENSOR.search(line)) and tensor[2] in WIDTHS:
        size = prod(int(length) for length in tensor[1].split(",")) * WIDTHS[tensor[2]]
        line += f" ({size / 1e9:,.1f} GB)"
    return f"{type(error).__name__}: {line}"


class Emitter:
    """The measured process's end of the pipe."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def part(self, place: str, value: BaseModel | dict[str, Any]) -> None:
        """A part of the record: `place` is its field, values are merged into what is there."""
        values = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        self._send({"event": "part", "place": place, "value": values})

    def append(self, place: str, value: BaseModel) -> None:
        """One more entry of a list in the record, e.g. an epoch."""
        self._send({"event": "append", "place": place, "value": value.model_dump(mode="json")})

    def progress(self, phase: str, **values: float | int | None) -> None:
        """Report where the run is, for the person who waits: epoch, epochs, step_time, seconds_left, loss, metric."""
        self._send({"event": "progress", "phase": phase, "value": values})

    def energy_part(self, part: str | None) -> None:
        """The energy that follows belongs to this part of the run, or to none."""
        self._send({"event": "energy", "part": part})

    def energy_sum(self, part: str | None, of: Sequence[str]) -> None:
        """Earlier parts add up to one, known only now, or to none."""
        self._send({"event": "energy", "part": part, "of": list(of)})

    def timed_windows(self) -> None:
        """The timed windows begin; said again, they are over."""
        self._send({"event": "timed_windows"})

    def end(self, status: str, reason: str | None = None) -> None:
        """The last word."""
        self._send({"event": "end", "status": status, "reason": reason})

    def _send(self, message: dict[str, Any]) -> None:
        self._stream.write(json.dumps(message) + "\n")
        self._stream.flush()
