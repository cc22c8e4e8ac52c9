"""The work of a run's step, as forecasts count it: operations, bytes, and what lives between in memory.

It is counted before the run's process starts, in a separate process, so that a trace never makes a first step quicker.
A count is kept together with the counts of forecasts: a step is counted once.
"""

from typing import Any

from whichdevice.base.parts import WHOLE_COUNT
from whichdevice.forecast.counting import count_steps
from whichdevice.forecast.known import known_record
from whichdevice.forecast.products import GENERATING, CompiledRecord, Mode, ProgramRequest
from whichdevice.forecast.targets import software_of
from whichdevice.forecast.work import Work
from whichdevice.measure.job import StepWork
from whichdevice.measure.record import Request
from whichdevice.models.loading import Model

DEVICE = "H200"  # a GPU that has every number format and much memory: other GPUs have the same count
COUNTERS = {"xla": "whichdevice.forecast.count.stablehlo", "eager": "whichdevice.forecast.torch.trace"}


def counter_of(model: Model) -> str:
    """Return the module that counts the operations of a model's step."""
    return COUNTERS[software_of(model.text)]


def step_work(request: Request) -> StepWork:
    """Return what was counted of the step of a run; in mode generate a step is one decoding step."""
    modes: tuple[Any, ...] = GENERATING if request.mode == "generate" else (request.mode,)
    asked = [_program(request, mode) for mode in modes]
    known = [record for one in asked if (record := known_record(one)) is not None]
    # The run itself keeps other measurements away.
    return _sum(known if len(known) == len(asked) else count_steps(asked, waits=False), request.replicas)


def _program(request: Request, mode: Mode) -> ProgramRequest:
    """Return the request for the count of one replica's part."""
    return ProgramRequest(
        device=DEVICE, workload=request.workload, module=request.module, precision=request.precision,
        batch_size=max(1, request.batch_size // request.replicas), mode=mode,
        sequence_length=request.sequence_length, options=request.options, timeout=request.timeout,
    )  # fmt: skip


def _sum(records: list[CompiledRecord], replicas: int) -> StepWork:
    """Return the work of the last record; in memory lies what the largest has."""
    step = records[-1]
    if step.work is None:
        return StepWork(counted=f"unknown: {step.reason}")
    work = Work.from_dict(step.work)
    between = max(record.facts.memory_parts.get("activations", 0.0) for record in records if record.facts is not None)
    counted = WHOLE_COUNT if work.operations else "unknown: no product was found"
    if work.unknown_loops or work.unknown_calls:
        parts = {"repeats of a loop": work.unknown_loops, "foreign kernels": work.unknown_calls}
        counted = f"a lower bound: without {' and '.join(name for name, count in parts.items() if count)}"
    return StepWork(work.operations * replicas or None, work.bytes * replicas, between * replicas, counted)
