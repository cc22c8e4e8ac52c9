"""How a process of an export runs: job in, messages out, one line whatever goes wrong."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from whichdevice.errors import StudyError
from whichdevice.exporting.trained import Job
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.failure_reason import reason_line
from whichdevice.parent import end_with_supervisor
from whichdevice.quick_import import quick_imports


def run_process(work: Callable[[Job, Emitter], None]) -> None:
    """Do one part of an export on Keras with TensorFlow, as the job file of the first argument says; then exit."""
    emit = Emitter(os.fdopen(int(os.environ["WHICHDEVICE_EVENTS"]), "w", encoding="utf-8"))
    end_with_supervisor()
    try:
        job = Job.model_validate_json(Path(sys.argv[1]).read_bytes())
        with quick_imports():
            import keras  # noqa: F401
            import tensorflow  # noqa: F401
        work(job, emit)
    except StudyError as error:
        emit.end("failed", str(error))
    except Exception as error:
        traceback.print_exc()
        emit.end("failed", reason_line(error))
    else:
        emit.end("ok")
    sys.exit(0)
