"""How a measured process ends: with one word that says what became of the run, and why."""

import traceback
from collections.abc import Callable

from whichdevice.backends.base import Backend
from whichdevice.errors import StudyError
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.failure_reason import place_in_file, reason_line
from whichdevice.measuring.refusal import RefusedError


def run_to_end(work: Callable[[], None], backend: Backend, module: str, emit: Emitter) -> None:
    """Do the work and send its end; whatever it raises becomes a status with a reason in one line."""
    try:
        work()
    except StudyError as error:
        emit.end("refused" if isinstance(error, RefusedError) else "failed", str(error))
    except Exception as error:
        traceback.print_exc()
        status = "out_of_memory" if _out_of_memory(backend, error) else "failed"
        emit.end(status, reason_line(error) + place_in_file(error, module))
    else:
        emit.end("ok")


def _out_of_memory(backend: Backend, error: Exception) -> bool:
    try:
        return isinstance(error, MemoryError) or backend.is_out_of_memory(error)
    except AttributeError:  # the framework never got imported
        return False
