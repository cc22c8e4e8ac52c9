"""How a measured process ends: one status and one line of reason.

Runs that cannot fit this host are refused before they start, or stopped before the whole host is short of memory.
"""

import traceback
from collections.abc import Callable, Mapping
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.events import Emitter, reason_line
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


FREE_SHARE = 0.9  # of a GPU's memory; an idle driver holds some itself


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
