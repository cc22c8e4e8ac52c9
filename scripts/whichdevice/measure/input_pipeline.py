"""The rate of a model file's input pipeline alone, in a separate process.

    python -m whichdevice.measure.input_pipeline MODEL BATCH OPTIONS

prints the rates of a model file. The process is separate as workers are forks: this one holds a framework's threads.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

from whichdevice.base.events import Emitter
from whichdevice.base.files import package_first
from whichdevice.measure.record import Pipeline, PipelineRate, Request
from whichdevice.models.loading import Model
from whichdevice.models.pipeline import Rate, rates
from whichdevice.models.workloads.base import Options, TrainingWorkload

FILE_SECONDS = 120.0  # that a file's data function and its rates may take
HOST_ALONE = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}


def send_pipeline(workload: TrainingWorkload, request: Request, emit: Emitter) -> None:
    """Send the record's `pipeline`, of one process and where the model's file has one."""
    if request.repeat > 1 or not getattr(workload, "has_pipeline", False):
        return
    emit.progress("timing the input pipeline")
    if timed := _of_file(request):
        emit.part("pipeline", Pipeline(rates=[PipelineRate(**rate._asdict()) for rate in timed]))


def _of_file(request: Request) -> list[Rate]:
    command = [sys.executable, "-m", __name__, request.module, str(request.batch_size), json.dumps(request.options)]
    with suppress(subprocess.SubprocessError, ValueError, OSError, IndexError):
        done = subprocess.run(
            command, env=os.environ | HOST_ALONE | package_first(), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=FILE_SECONDS, check=True,
        )  # fmt: skip
        return [Rate(*fields) for fields in json.loads(done.stdout.splitlines()[-1])]
    return []


def main() -> None:
    """Print the rates as the last line."""
    model, batch_size, options = Model.read(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    workload: Any = model.workload(Options(batch_size, given=options))
    print("\n" + json.dumps(rates(workload.pipeline(), batch_size)), flush=True)
    os._exit(0)  # threads of a loader would go on


if __name__ == "__main__":
    main()
