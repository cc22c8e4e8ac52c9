"""Send what a measured process finds, and how it ends, to its supervisor: one JSON object a line through a pipe.

The supervisor keeps what has arrived, so that a run which is killed half-way still leaves a record. A run ends with one
status and one line of reason; runs that cannot fit this host are refused before they start, or stopped before the whole
host is short of memory.
"""

import json
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import IO, Any

from pydantic import BaseModel

from whichdevice.base.errors import StudyError
from whichdevice.base.memory import memory_within
from whichdevice.measure.backends.base import Backend
from whichdevice.models.loading import Model
from whichdevice.models.model_file import own_place

MIN_WEIGHT_BYTES = 8  # of each weight: itself and its gradient, in float32


class RefusedError(StudyError):
    """The run cannot fit this host and was not started."""


def refuse_what_cannot_fit(need: float, available: float) -> None:
    """Raise RefusedError where the estimated need of host memory is above what the host has left; both in bytes."""
    if need > available:
        raise RefusedError(
            f"needs about {need / 1e9:.1f} GB of memory (estimate), this host has {available / 1e9:.1f} GB left; "
            "take a smaller batch_size, sequence_length or fraction"
        )


def built_within(limit: float | None, build: Callable[[], Any]) -> Any:
    """The Keras model that `build` makes, of which weights and gradients fit `limit` bytes; None: no limit.

    Raises RefusedError where they do not, or the framework's own error where it could not even make the weights.
    """
    with memory_within(limit):
        model = build()
    weights = model.count_params()
    if limit is not None and weights * MIN_WEIGHT_BYTES > limit:
        raise RefusedError(
            f"the model has {weights:,} weights: with gradients {weights * MIN_WEIGHT_BYTES / 1e9:,.0f} GB of "
            f"memory, this host has {limit / 1e9:.1f} GB left; make the model smaller"
        )
    return model


ASKED = re.compile(r"OOM|out of memory|allocat", re.IGNORECASE)
TENSOR = re.compile(r"shape\[([\d,]+)\] and type (\w+)")  # TensorFlow names no bytes
WIDTHS = {"double": 8, "int64": 8, "float": 4, "int32": 4, "half": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1}
NOISE = re.compile(r"\{\{[^}]*\}\}|\[Op:.*")  # TensorFlow's names of its parts
PREAMBLE = ("Graph execution error:", "Detected at node", "  File ")
FREE_SHARE = 0.9  # of a GPU's memory; an idle driver holds some itself


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


def place_in_file(error: BaseException, model: Model) -> str:
    """The last line of a workload's own files that an error passed, e.g. ` (my_model.py, line 12)`; else nothing."""
    try:
        place = own_place(error, model.address)
    except StudyError:  # the file is gone
        return ""
    return f" ({place[0].name}, line {place[1]})" if place is not None else ""


def with_what_was_asked(reason: str | None, fields: Mapping[str, Any]) -> str:
    """The reason of an `out_of_memory` record with batch size, expected need and who else held a GPU's memory."""
    asked, machine = fields["asked"], fields.get("machine", {})
    parts = [reason or "out of memory", f"batch_size {asked['batch_size']}"]
    if asked["kind"] == "cpu" and "workload" in fields:
        parts[1] += f", expected to need {fields['workload']['estimated_memory'] / 1e9:,.1f} GB (estimate)"
    total, free = machine.get("device_memory"), machine.get("device_memory_free")
    if total and free is not None and free < FREE_SHARE * total:
        parts.append(
            f"before the run {free / 1e9:,.1f} of the GPU's {total / 1e9:,.1f} GB were free: end what holds the rest "
            "(nvidia-smi names it)"
        )
    return "; ".join(parts)


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


def run_to_end(work: Callable[[], None], backend: Backend, model: Model, emit: Emitter) -> None:
    """Do the work and send its end; whatever it raises becomes a status with a reason in one line."""
    try:
        work()
    except StudyError as error:
        emit.end("refused" if isinstance(error, RefusedError) else "failed", str(error))
    except Exception as error:
        traceback.print_exc()
        status = "out_of_memory" if _out_of_memory(backend, error) else "failed"
        emit.end(status, reason_line(error) + place_in_file(error, model))
    else:
        emit.end("ok")


def _out_of_memory(backend: Backend, error: Exception) -> bool:
    try:
        return isinstance(error, MemoryError) or backend.is_out_of_memory(error)
    except AttributeError:  # the framework never got imported
        return False
