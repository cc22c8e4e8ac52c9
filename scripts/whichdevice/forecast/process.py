"""The compiling process: one request in a process of its own. `python -m whichdevice.forecast.process JOB.json`.

Its environment was set before its start; it tells its parent what it finds through the pipe WHICHDEVICE_EVENTS.
"""

import json
import os
import sys
import traceback
from pathlib import Path

from whichdevice.errors import StudyError
from whichdevice.forecast.memory import OutOfDeviceMemoryError, largest_batch
from whichdevice.forecast.program import CompiledStep, available_memory, compile_step
from whichdevice.forecast.steps import Step, set_precision, step_of
from whichdevice.forecast.targets import CompilerMissingError, describe, device_of, topology_named
from whichdevice.measuring.events import Emitter
from whichdevice.parent import end_with_supervisor
from whichdevice.records.compiled import Collective, CompileFacts, CompileRequest, ModelledTime
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import TrainingWorkload


def main() -> int:
    """Compile what the job file asks for: {"request": ..., "dataset": folder or null}."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    emit = Emitter(os.fdopen(int(os.environ["WHICHDEVICE_EVENTS"]), "w", encoding="utf-8"))
    end_with_supervisor()
    request = CompileRequest.model_validate(job["request"])
    try:
        status, reason = _compile(request, Path(job["dataset"]) if job["dataset"] else None, emit)
    except CompilerMissingError as error:
        status, reason = "unavailable", str(error)
    except StudyError as error:
        status, reason = "failed", str(error)
    except Exception as error:
        traceback.print_exc()
        first = next(iter(str(error).strip().splitlines()), "")
        status, reason = "failed", f"{type(error).__name__}: {first}"
    emit.end(status, reason)
    return 0


def _compile(request: CompileRequest, dataset: Path | None, emit: Emitter) -> tuple[str, str | None]:
    topology = topology_named(request.topology)
    describe(topology)
    set_precision(request.precision)
    step = step_of(request, request.batch_size, dataset)
    facts = CompileFacts(
        devices=topology.devices,
        hbm=device_of(topology.chip).memory,
        hbm_available=available_memory(request.topology),
        analytic_flops=step.analytic_flops,
    )
    status, reason = "ok", None
    try:
        compiled = _compiled(step, request)
        facts = facts.model_copy(update=_facts(compiled, step))
        emit.part("modelled", _modelled(compiled))
    except OutOfDeviceMemoryError as error:
        missing = {"memory_needed": error.needed, "memory_missing": error.needed - error.available}
        facts = facts.model_copy(update=missing)
        status, reason = "does_not_fit", str(error)
    emit.part("facts", facts)
    if request.largest_batch and issubclass(workload_class(request.module), TrainingWorkload):
        _search(request, dataset, facts, emit)
    return status, reason


def _compiled(step: Step, request: CompileRequest) -> CompiledStep:
    return compile_step(step.function, step.arguments, request.topology, step.batch, step.donate, step.outputs)


def _facts(compiled: CompiledStep, step: Step) -> dict[str, object]:
    memory, elapsed = compiled.memory, compiled.time.at_high
    return {
        "compile_seconds": compiled.seconds,
        "memory_needed": memory.total,
        "arguments": memory.arguments,
        "outputs": memory.outputs,
        "aliased": memory.aliased,
        "temporary": memory.temporary,
        "code": memory.code,
        "collectives": {
            kind: Collective(count=round(count), nbytes=elapsed.collective_bytes[kind])
            for kind, count in elapsed.collectives.items()
        },
        "program_flops": compiled.flops,
        "flops_ratio": compiled.flops / step.analytic_flops if step.analytic_flops else None,
    }


def _modelled(compiled: CompiledStep) -> ModelledTime:
    found = compiled.time
    return ModelledTime(
        low=found.low,
        high=found.high,
        bytes_with_cycles=found.timed_share,
        unknown_trip_counts=found.unknown_loops,
        low_by_category=dict(found.at_low.categories),
        high_by_category=dict(found.at_high.categories) if found.high is not None else {},
    )


def _search(request: CompileRequest, dataset: Path | None, facts: CompileFacts, emit: Emitter) -> None:
    """The largest batch that fits, or why none was found."""

    def need(batch_size: int) -> float:
        emit.progress(f"largest batch: {batch_size}")
        return _compiled(step_of(request, batch_size, dataset), request).memory.total

    first = facts.memory_needed or 0.0
    try:
        found = largest_batch(need, request.batch_size, first, facts.hbm_available, facts.devices)
    except StudyError as error:
        emit.part("facts", {"largest_batch_reason": str(error)})
        return
    told = {"largest_batch": found.batch_size, "largest_batch_compiles": found.compiles}
    emit.part("facts", {**told, "largest_batch_reason": found.reason})


if __name__ == "__main__":
    sys.exit(main())
