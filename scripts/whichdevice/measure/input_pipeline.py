"""The rate of a run's input pipeline by itself: a model file's own, in a process of its own, or what feeds `fit`.

    python -m whichdevice.measure.input_pipeline MODEL BATCH OPTIONS

prints the rates of a model file. A process of its own: workers are forks, and this one holds a framework's threads.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

from whichdevice.base.events import Emitter
from whichdevice.base.files import package_first
from whichdevice.measure.backends.base import TrainingLoop
from whichdevice.measure.record import Pipeline, PipelineRate, Request
from whichdevice.models.batch_order import BatchOrder
from whichdevice.models.loading import Model
from whichdevice.models.pipeline import MOST_BATCHES, Rate, rate_of, rates
from whichdevice.models.workloads.base import Options, TrainingWorkload

FILE_SECONDS = 120.0  # that a file's data function and its rates may take
HOST_ALONE = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}


def send_pipeline(
    workload: TrainingWorkload, loop: TrainingLoop, order: BatchOrder, request: Request, emit: Emitter
) -> None:
    """Send the record's `pipeline`, of one process and where there is one: the file's or script's, else that of `fit`.

    Nothing is sent where it fails by itself, as a generator does that has ended: the run is measured already.
    """
    script = getattr(workload, "found", None)  # of a script, whose rates are known
    file_rates: list[Rate] = [] if script is None else list(script.pipeline)
    if getattr(workload, "has_pipeline", False) and script is None:
        emit.progress("timing the input pipeline")
        file_rates = _of_file(request)
    timed = file_rates
    with suppress(Exception):
        fed = None if file_rates or request.replicas > 1 else loop.fed(order.take(MOST_BATCHES))
        timed = file_rates if fed is None else [rate_of(fed, request.batch_size)]
    if timed:
        kept = [PipelineRate(**rate._asdict()) for rate in timed]
        emit.part("pipeline", Pipeline(origin="own" if file_rates else "fit", rates=kept))


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
