"""One run of a single operation: cold first step, warm-up, steady state."""

import numpy as np

from whichdevice.backends.base import Backend
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.memory_need import operation_memory
from whichdevice.measuring.refusal import refuse_what_cannot_fit
from whichdevice.measuring.steady_state import RunSteps, steady_windows, timed, warm_up
from whichdevice.records.schema import Request, Steady, WorkloadFacts
from whichdevice.workloads.base import OperationWorkload


def run_operation(
    backend: Backend, workload: OperationWorkload, request: Request, memory_limit: float, emit: Emitter
) -> None:
    """Measure and send everything but the end."""
    need = operation_memory(workload.bytes_per_step)
    emit.part(
        "workload",
        WorkloadFacts(
            unit=workload.unit,
            input_shape=[request.batch_size, request.batch_size],
            flops_per_step=workload.flops_per_step,
            bytes_per_step=workload.bytes_per_step,
            estimated_memory=need,
        ),
    )
    refuse_what_cannot_fit(need, memory_limit)
    loop = backend.operation_loop(workload, np.random.default_rng(request.seed))
    time_steps(loop.run, request, 1.0, workload.flops_per_step, 0, emit)


def time_steps(
    run: RunSteps, request: Request, units_per_step: float, flops_per_step: float, steps_per_epoch: int, emit: Emitter
) -> float:
    """Cold and steady times of any repeated step; the steady step time in seconds is returned."""
    emit.progress("compiling")
    emit.part("cold", {"first_step": timed(run, 1)})
    discarded = warm_up(run, request.seconds)
    emit.part("cold", {"warm_up": discarded})
    last = discarded[-1][1] / discarded[-1][0]

    def tell(step_time: float, seconds_left: float) -> None:
        emit.progress("timing", step_time=step_time, seconds_left=seconds_left)

    windows = steady_windows(run, last, request.seconds, request.min_steps, tell)
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
