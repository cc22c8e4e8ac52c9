"""The measured process: one run from import to artefacts. `python -m whichdevice.measure.process REQUEST.json`.

It imports neither Snakemake nor pandas, and sends everything that it finds through file descriptor EVENTS.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np

from whichdevice.base.events import Emitter
from whichdevice.base.memory import peak_memory
from whichdevice.base.processes import supervised_job
from whichdevice.measure.backends import backend_class
from whichdevice.measure.backends.base import Backend
from whichdevice.measure.estimated_memory import operation_memory
from whichdevice.measure.generation_run import run_generation
from whichdevice.measure.inference_run import run_inference
from whichdevice.measure.job import Job, StepWork
from whichdevice.measure.record import Request, WorkloadFacts
from whichdevice.measure.run_end import refuse_what_cannot_fit, run_to_end
from whichdevice.measure.timing import time_steps
from whichdevice.measure.training_run import run_training
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import OperationWorkload, TrainingWorkload


def run_operation(
    backend: Backend, workload: OperationWorkload, request: Request, memory_limit: float, emit: Emitter
) -> None:
    """Measure and send everything but the end."""
    flops = workload.flops_per_step * request.replicas  # every replica runs the operation
    need = operation_memory(workload.bytes_per_step, request, workload.host_copies)
    emit.part(
        "workload",
        WorkloadFacts(
            unit=workload.unit,
            input_shape=workload.input_shape,
            flops_per_step=flops,
            bytes_per_step=workload.bytes_per_step * request.replicas,
            estimated_memory=need,
        ),
    )
    refuse_what_cannot_fit(need, memory_limit)
    units = workload.units_per_step * request.replicas
    loop = backend.operation_loop(workload, np.random.default_rng(request.seed))
    time_steps(lambda steps: partial(loop.run, steps), request, units, emit)


def main() -> NoReturn:
    """Run what the job file asks for; the job holds request, folders, memory limit and the clock at the start."""
    job, stream = supervised_job()
    emit = Emitter(stream)
    request = Request.model_validate(job["request"])
    model = Model.read(request.module)
    backend = backend_class(request.backend, model.framework)(request, job["threads"])

    def work() -> None:
        backend.start()
        emit.part("cold", {"start": time.monotonic() - job["started"]})
        began = time.monotonic()
        backend.initialise()
        emit.part("cold", {"initialise": time.monotonic() - began})
        run_request(backend, model, request, job, emit)

    run_to_end(work, backend, model, emit)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # taking the framework apart would take TensorFlow a second or two; all is written


def run_request(backend: Backend, model: Model, request: Request, job: dict, emit: Emitter) -> None:
    """One run on a backend that has been started."""
    _emit_settings(backend, emit)
    name, count = backend.device()
    emit.part("machine", {"device_count": count, **({"device_name": name} if name else {})})
    workload = model.asked(request)
    time_pipeline: Callable[[], None] | None = None
    if isinstance(workload, OperationWorkload):
        run_operation(backend, workload, request, job["memory_limit"], emit)
    elif isinstance(workload, TrainingWorkload):
        paths = {name: Path(job[name]) for name in ("folder", "dataset") if name in job}
        work = StepWork(**job["work"])
        asked = Job(backend, workload, request, emit, job["memory_limit"], work, **paths)
        if request.mode == "generate":
            run_generation(asked)
        elif request.mode == "predict":
            run_inference(asked)
        else:
            time_pipeline = run_training(asked)
    _emit_settings(backend, emit)  # now of the programs that really ran
    emit.part("memory", {"peak_device": backend.peak_device_memory(), "peak_host": peak_memory()})
    if time_pipeline is not None:
        time_pipeline()


def _emit_settings(backend: Backend, emit: Emitter) -> None:
    emit.part("software", {"flags": dict(backend.flags()), "types": backend.types().model_dump()})


if __name__ == "__main__":
    main()
