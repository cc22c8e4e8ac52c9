"""One run of a single operation: cold first step, warm-up, steady state."""

from functools import partial

import numpy as np

from whichdevice.backends.base import Backend
from whichdevice.devices import gpu
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.memory_need import operation_memory
from whichdevice.measuring.refusal import refuse_what_cannot_fit
from whichdevice.measuring.steady_state import WINDOW_SECONDS, PrepareSteps, steady_windows, timed, warm_up
from whichdevice.records.schema import Request, Steady, WorkloadFacts
from whichdevice.workloads.base import OperationWorkload


def run_operation(
    backend: Backend, workload: OperationWorkload, request: Request, memory_limit: float, emit: Emitter
) -> None:
    """Measure and send everything but the end."""
    flops = workload.flops_per_step * request.replicas  # every replica runs the operation
    need = operation_memory(workload.bytes_per_step, request)
    emit.part(
        "workload",
        WorkloadFacts(
            unit=workload.unit,
            input_shape=[request.batch_size, request.batch_size],
            flops_per_step=flops,
            bytes_per_step=workload.bytes_per_step * request.replicas,
            estimated_memory=need,
        ),
    )
    refuse_what_cannot_fit(need, memory_limit)
    loop = backend.operation_loop(workload, np.random.default_rng(request.seed))
    time_steps(lambda steps: partial(loop.run, steps), request, float(request.replicas), flops, 0, emit)


def time_steps(
    prepare: PrepareSteps,
    request: Request,
    units_per_step: float,
    flops_per_step: float,
    steps_per_epoch: int,
    emit: Emitter,
    window: float = WINDOW_SECONDS,
) -> float:
    """Cold and steady times of any repeated step; the steady step time in seconds is returned."""
    emit.progress("compiling")
    emit.part("cold", {"first_step": timed(prepare, 1)})
    discarded = warm_up(prepare, request.seconds, window)
    emit.part("cold", {"warm_up": discarded})
    last = discarded[-1][1] / discarded[-1][0]

    def tell(step_time: float, seconds_left: float) -> None:
        emit.progress("timing", step_time=step_time, seconds_left=seconds_left)

    windows = steady_windows(prepare, last, request.seconds, request.min_steps, tell, window)
    if request.kind == "gpu":
        emit.part("machine", {"clock": gpu.clock_now()})  # within milliseconds of the load
    steps, seconds = sum(count for count, _ in windows), sum(took for _, took in windows)
    emit.part(
        "steady",
        Steady(
            windows=windows,
            steps=steps,
            seconds=seconds,
            step_time=seconds / steps,
            throughput=units_per_step * steps / seconds,
            flops_per_second=flops_per_step * steps / seconds,
            epoch_time=steps_per_epoch * seconds / steps if steps_per_epoch else None,
        ),
    )
    return seconds / steps
