"""The counting process: many steps, one after the other. `python -m whichdevice.forecast.count.process JOB.json`.

The job is a list of steps, each with its requests: `[[[number, request], ...], ...]`. A step of JAX, Keras or
TensorFlow is counted once for all devices; of PyTorch each device has its record, by the same traces. What is found
goes to the parent through the pipe WHICHDEVICE_EVENTS, by the request's number.
"""

import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.events import Emitter
from whichdevice.base.parts import GENERATED_UNIT
from whichdevice.base.processes import supervised_job
from whichdevice.forecast import host
from whichdevice.forecast.count.kept import SAME, OneSize, StepCount, batch_of_one, one_size
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.targets import find_target, software_of
from whichdevice.models.loading import Model
from whichdevice.models.script.look import recording
from whichdevice.models.workloads.base import OperationWorkload, Options

Numbered = list[tuple[str, ProgramRequest]]
Result = dict[str, Any]


def main() -> int:
    """Count the steps of the job file."""
    job, stream = supervised_job()
    emit = Emitter(stream)
    for group in job:
        asked = [(str(number), ProgramRequest.model_validate(request)) for number, request in group]
        traced = software_of(asked[0][1].module) == "eager"
        for number, find in (_traces if traced else _count)(asked):
            _send(emit, number, asked[0][1], find)
    emit.end("ok")
    return 0


def _send(emit: Emitter, number: str, request: ProgramRequest, find: Callable[[], Result]) -> None:
    """Find something and send it; whatever happens, a status."""
    emit.part(number, {"status": "failed", "reason": None})
    limit = threading.Timer(request.timeout, _give_up, (emit, number, request))
    limit.daemon = True
    limit.start()
    try:
        result = find()
        host.measure(software_of(request.module))
    except StudyError as error:
        result = {"reason": str(error)}
    except MemoryError:
        # What the frameworks have after it is not sound: another process counts the rest.
        reason = "no memory left on this host to count it"
        emit.part(number, {"status": "out_of_memory", "reason": reason, "done": True})
        os._exit(1)
    except Exception as error:
        traceback.print_exc()
        first = next(iter(str(error).strip().splitlines()), "")
        result = {"reason": f"{type(error).__name__}: {first}"}
    limit.cancel()
    emit.part(number, {**result, "done": True})


def _give_up(emit: Emitter, number: str, request: ProgramRequest) -> None:
    reason = f"still counting after forecast.timeout = {request.timeout:g} s; given up"
    emit.part(number, {"status": "timed_out", "reason": reason, "done": True})
    os._exit(1)


def _count(asked: Numbered) -> list[tuple[str, Callable[[], Result]]]:
    """One count for all requests of a step."""
    return [(asked[0][0], lambda: {"status": "ok", "count": count_step(asked[0][1]).model_dump(mode="json")})]


def count_step(request: ProgramRequest) -> StepCount:
    """Count a step on one device; raises StudyError and what JAX raises where it cannot be traced."""
    if Model.read(request.module).found is not None:
        return _of_script(request)
    from whichdevice.forecast.count.steps import make_step, nbytes_of, start

    start()
    batch, precision = batch_of_one(request), SAME.get(request.precision, request.precision)
    sizes, notes = list[OneSize](), list[str]()
    for size in (batch, 2 * batch) if request.largest_batch and Model.read(request.module).has_model else (batch,):
        step = make_step(request.module, precision, size, request.mode, request.options, request.sequence_length)
        one, fused = one_size(step, size, precision, request.mode)
        sizes.append(one)
        notes += [step.note] if step.note and fused and not notes else []
    workload = Model.read(request.module).workload(Options(batch, precision, given=request.options))
    units = workload.units_per_step if isinstance(workload, OperationWorkload) else float(batch)
    return StepCount(
        sizes=sizes,
        weights=nbytes_of(step.weights),
        optimizer=nbytes_of(step.optimizer),
        gradients=nbytes_of(step.gradients),
        arrays=step.arrays,
        keras=step.keras,
        unit=workload.unit if step.tokens is None else GENERATED_UNIT,
        units=units if step.tokens is None else float(step.tokens),
        notes=notes,
    )


def _of_script(request: ProgramRequest) -> StepCount:
    """Return the count that a script's own process made of its step."""
    from whichdevice.forecast.count.recorded import step_of_batch  # imports JAX

    label, precision = Model.read(request.module).label, SAME.get(request.precision, request.precision)
    if request.mode != "train":
        raise StudyError(f"{label}: a script is recorded as it trains; leave out --mode")
    count = recording(Model.read(request.module).address)[1]["count"]
    try:
        return step_of_batch(StepCount.model_validate(count), batch_of_one(request), "16" in precision)
    except StudyError as error:
        raise StudyError(f"{label}: {error}") from None


def _traces(asked: Numbered) -> list[tuple[str, Callable[[], Result]]]:
    """A record for each request of a PyTorch step, from the same traces."""
    from whichdevice.forecast.torch.records import Traced, one_trace

    traced: list[Traced | StudyError] = []

    def record(request: ProgramRequest) -> Result:
        if not traced:
            try:
                traced.append(Traced(one_trace(request)))
            except StudyError as error:
                traced.append(error)
        if isinstance(traced[0], StudyError):
            raise traced[0]
        status, reason, facts, work = traced[0].record(request, find_target(request.device, request.devices))
        return {"status": status, "reason": reason, "facts": facts.model_dump(mode="json"), "work": work.digest()}

    return [(number, lambda request=request: record(request)) for number, request in asked]  # type: ignore[misc]


if __name__ == "__main__":
    sys.exit(main())
