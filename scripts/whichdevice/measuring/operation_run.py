"""One run of a single operation."""

from functools import partial

import numpy as np

from whichdevice.backends.base import Backend
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.memory_need import operation_memory
from whichdevice.measuring.refusal import refuse_what_cannot_fit
from whichdevice.measuring.timing import time_steps
from whichdevice.records.schema import Request, WorkloadFacts
from whichdevice.workloads.base import OperationWorkload


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
    time_steps(lambda steps: partial(loop.run, steps), request, units, flops, 0, emit)
