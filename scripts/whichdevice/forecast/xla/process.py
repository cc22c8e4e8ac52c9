"""The compiling process: many programs, one after the other. `python -m whichdevice.forecast.xla.process JOB.json`.

Several such processes may share a list: each program is claimed by a file in a folder before it is compiled. What they
find goes to the parent through the pipe WHICHDEVICE_EVENTS, by the program's number. A step that was traced is kept for
the next targets.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.events import Emitter
from whichdevice.base.parts import GENERATED_UNIT
from whichdevice.base.processes import supervised_job
from whichdevice.forecast import tpu
from whichdevice.forecast.products import Collective, CompileFacts, ProgramRequest
from whichdevice.forecast.targets import CompilerMissingError, Target, find_target, software_of
from whichdevice.forecast.work import Work
from whichdevice.forecast.xla.device_memory import RESERVE, OutOfDeviceMemoryError, largest_batch, passes_of
from whichdevice.forecast.xla.hlo_operations import work_of
from whichdevice.forecast.xla.hlo_text import Program, parse_program
from whichdevice.forecast.xla.programs import (
    CompiledProgram,
    Step,
    compile_step,
    describe,
    make_step,
    start,
)
from whichdevice.forecast.xla.recurrent import fused_work
from whichdevice.forecast.xla.schedule import Portable, schedule_step
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import OperationWorkload, Options


def main() -> int:
    """Compile what the job file lists: {"requests": [[number, request], ...], "claims": folder, "drafts": false}."""
    job, stream = supervised_job()
    emit = Emitter(stream)
    compiler = _Compiling(emit, job["drafts"])
    for number, request in job["requests"]:
        if _claim(Path(job["claims"]) / str(number)):
            compiler.one(str(number), ProgramRequest.model_validate(request))
    emit.end("ok")
    return 0


def _claim(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class _Compiling:
    """Compiles programs, and keeps what the next one may use again."""

    def __init__(self, emit: Emitter, drafts: bool) -> None:
        self._emit, self._drafts = emit, drafts
        self._key: str | None = None
        self._step: Any = None  # or the error that it ends with
        self._portable: tuple[Step, Portable | None] | None = None

    def one(self, number: str, request: ProgramRequest) -> None:
        """Compile one program and send what was found; whatever happens, a status."""
        self._emit.part(number, {"status": "failed", "reason": None})
        limit = threading.Timer(request.timeout, self._give_up, (number, request))
        limit.daemon = True
        limit.start()
        try:
            status, reason = self._compile(number, request)
        except CompilerMissingError as error:
            status, reason = "unavailable", str(error)
        except StudyError as error:
            status, reason = "failed", str(error)
        except MemoryError:
            # What the frameworks have after it is not sound: another process compiles the rest.
            status, reason = "out_of_memory", "no memory left on this host to compile it"
            self._emit.part(number, {"status": status, "reason": reason, "done": True})
            os._exit(1)
        except Exception as error:
            traceback.print_exc()
            first = next(iter(str(error).strip().splitlines()), "")
            status, reason = "failed", f"{type(error).__name__}: {first}"
        limit.cancel()
        self._emit.part(number, {"status": status, "reason": reason, "done": True})

    def _give_up(self, number: str, request: ProgramRequest) -> None:
        reason = f"still compiling after forecast.timeout = {request.timeout:g} s; given up"
        self._emit.part(number, {"status": "timed_out", "reason": reason, "done": True})
        os._exit(1)

    def _compile(self, number: str, request: ProgramRequest) -> tuple[str, str | None]:
        target = find_target(request.device, request.devices)
        if software_of(request.module) == "eager":
            return self._trace(number, request, target)
        start(["cuda"])
        describe(target)
        step = self._once(request, lambda: _step(request, request.batch_size))
        facts = self._known(request, target)
        status, reason, compiled = "ok", None, dict[int, tuple[float, Work]]()
        try:
            program = self._program(step, target, request, request.batch_size)
            text, for_tpu = parse_program(program.text), None
            work, unrolled = _work(text, step, target, request, request.batch_size)
            if target.device == tpu.CARD:
                for_tpu = work_of(text, "gpu", small_loops=tpu.SMALL_LOOPS).digest()
            notes = [step.note] if step.note and not unrolled else []
            units = {} if step.tokens is None else {"unit": GENERATED_UNIT, "units_per_step": float(step.tokens)}
            sent = {"arrays": step.arrays, "fit": step.keras}
            facts = facts.model_copy(update={**_facts(program, work), **units, **sent, "notes": notes})
            self._emit.part(number, {"work": work.digest(), "work_for_tpu": for_tpu})
            if (need := program.memory.total) > facts.memory_available:
                raise OutOfDeviceMemoryError(need, facts.memory_available)
            compiled = {request.batch_size: (need, work)}
        except OutOfDeviceMemoryError as error:
            missing = {"memory_needed": error.needed, "memory_missing": error.needed - error.available}
            facts = facts.model_copy(update=missing)
            status, reason = "does_not_fit", str(error)
        self._emit.part(number, {"facts": facts.model_dump(mode="json")})
        if request.largest_batch and Model.read(request.module).has_model:
            facts = facts.model_copy(update=self._largest(request, target, facts, compiled))
            facts = facts.model_copy(update=passes_of(request, target, compiled))
            self._emit.part(number, {"facts": facts.model_dump(mode="json")})
        return status, reason

    def _trace(self, number: str, request: ProgramRequest, target: Target) -> tuple[str, str | None]:
        """A PyTorch model's step, traced."""
        from whichdevice.forecast.torch.records import Traced, one_trace

        def draft(traced: Traced) -> None:
            """Send what a few of many equal layers show."""
            if self._drafts and (known := traced.draft(request, target)) is not None:
                status, reason, facts, work = known
                drafted = {"status": status, "reason": reason, "facts": facts.model_dump(mode="json")}
                self._emit.part(number, {"draft": drafted | {"work": work.digest()}})

        traced = self._once(one_trace(request), lambda: Traced(one_trace(request), draft))
        status, reason, facts, work = traced.record(request, target)
        self._emit.part(number, {"facts": facts.model_dump(mode="json"), "work": work.digest()})
        return status, reason

    def _once(self, request: ProgramRequest, make: Callable[[], Any]) -> Any:
        """The step, made anew unless it is the last one's; a failure is kept as well."""
        what = request.model_dump(include={"module", "precision", "batch_size", "mode", "sequence_length", "options"})
        key = json.dumps(what, sort_keys=True)
        if key != self._key:
            self._key = key
            try:
                self._step = make()
            except StudyError as error:
                self._step = error
        if isinstance(self._step, StudyError):
            raise self._step
        return self._step

    def _program(self, step: Step, target: Target, request: ProgramRequest, batch_size: int) -> CompiledProgram:
        """The program as it is scheduled; one that JAX cannot export as it is compiled."""
        if self._portable is None or self._portable[0] is not step:
            try:
                self._portable = step, Portable.of(step)
            except (StudyError, MemoryError):
                raise
            except Exception:  # JAX exports no such step: compiled whole
                traceback.print_exc()
                self._portable = step, None
        if (portable := self._portable[1]) is None:
            return compile_step(step, target, request.precision, batch_size, request.mode)
        return schedule_step(portable, target, request.precision, batch_size, request.mode)

    def _known(self, request: ProgramRequest, target: Target) -> CompileFacts:
        """The facts that hold before the program is compiled."""
        workload = Model.read(request.module).workload(
            Options(request.batch_size, request.precision, given=request.options)
        )
        units = float(request.batch_size)
        if isinstance(workload, OperationWorkload):
            units = workload.units_per_step * target.devices
        return CompileFacts(
            memory=target.memory,
            memory_available=target.available(RESERVE),
            unit=workload.unit,
            units_per_step=units,
        )

    def _largest(
        self, request: ProgramRequest, target: Target, facts: CompileFacts, compiled: dict[int, tuple[float, Work]]
    ) -> dict[str, Any]:
        """The largest batch that fits, or why none was found; `compiled` takes bytes and work of those that do."""
        available = facts.memory_available

        def need(batch_size: int) -> float:
            self._emit.progress(f"{target.label}: largest batch: {batch_size}")
            step = _step(request, batch_size)
            program = self._program(step, target, request, batch_size)
            total = program.memory.total
            if total > available:
                raise OutOfDeviceMemoryError(total, available)
            compiled[batch_size] = total, _work(parse_program(program.text), step, target, request, batch_size)[0]
            return total

        try:
            first = facts.memory_needed or 0.0
            largest = largest_batch(need, request.batch_size, first, available, target.devices)
        except StudyError as error:
            return {"largest_batch_reason": str(error)}
        return {
            "largest_batch": largest.batch_size,
            "largest_batch_compiles": largest.compiles,
            "largest_batch_reason": largest.reason,
        }


def _step(request: ProgramRequest, batch_size: int) -> Step:
    return make_step(
        request.module, "gpu", request.precision, batch_size, request.mode, request.options, request.sequence_length
    )


def _work(text: Program, step: Step, target: Target, request: ProgramRequest, batch_size: int) -> tuple[Work, bool]:
    """Return the work of a program, and whether it has recurrent layers that are neither loops nor cuDNN's."""
    fused = None
    if step.recurrent:
        share = max(1, batch_size // target.devices)
        fused = fused_work(text, step.recurrent, request.precision, share, request.mode == "train")
    return fused or work_of(text, "gpu"), bool(step.recurrent) and fused is None


def _facts(program: CompiledProgram, work: Work) -> dict[str, Any]:
    memory = program.memory
    collectives: dict[str, Collective] = {}
    moved = [item for item in work.items if item.kind == "collective"]
    if moved:
        count = sum(item.count for item in moved)
        nbytes = sum(item.bytes * item.count for item in moved)
        collectives["all"] = Collective(count=round(count), nbytes=nbytes)
    return {
        "compile_seconds": program.seconds,
        "memory_needed": float(memory.total),
        "memory_is_lower_bound": "__cudnn$" in program.text,
        "arguments": float(memory.arguments),
        "outputs": float(memory.outputs),
        "aliased": float(memory.aliased),
        "temporary": float(memory.temporary),
        "code": float(memory.code),
        "operations": work.operations,
        "nbytes": work.bytes,
        "kernels": work.kernels,
        "collectives": collectives,
    }


if __name__ == "__main__":
    sys.exit(main())
