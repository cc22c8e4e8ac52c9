"""Records of PyTorch models: one trace in a process, facts and work for every device."""

import re
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.base.code_hash import content_key
from whichdevice.base.errors import StudyError
from whichdevice.base.identity import installed_versions
from whichdevice.base.parts import GENERATED_UNIT
from whichdevice.forecast import tpu
from whichdevice.forecast.memory import NONE_FITS, largest_batch
from whichdevice.forecast.products import GENERATING, Change, CompileFacts, CompileStatus, Pass, ProgramRequest
from whichdevice.forecast.targets import Target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.torch.facts import (
    facts_on,
    frozen_note,
    in_float8,
    layout_note,
    memory_ends,
    needed_on,
    outcome,
    way_on,
    work_of,
)
from whichdevice.forecast.torch.memory import HALF, LIGHT, RESERVE, Copies, Plan, in_bfloat16, need
from whichdevice.forecast.torch.recorded import Recordings
from whichdevice.forecast.torch.several import Way, accumulated, on_gpus
from whichdevice.forecast.torch.step import Step, Trace
from whichdevice.forecast.work import Item, Work
from whichdevice.models.hugging_face import HubModel
from whichdevice.models.loading import Model
from whichdevice.models.model_file import error_line, own_line
from whichdevice.models.script.look import ScriptAdapter
from whichdevice.models.torch_model import TorchFile
from whichdevice.models.workloads.base import Options

NO_GENERATION = "generation is forecast for Keras models and for decoders of Hugging Face, hf:NAME"
TRACES = Path("results/programs/traces")
MAX_PASS = 2**24  # examples of a pass: a larger one is tried of no model
STEP = 4  # from one size of a pass to the next: the time between two is on a straight line
SHORTEST, ROUND = 256, 64  # tokens of the first sequence that is tried for the longest, and of its steps
FORWARD = "the forward pass of its training step, with the loss and what that pass keeps for gradients"
COMPILED = ("by torch.compile; the memory is of the step without it, which takes a little more",)
EMULATED = ("in bfloat16, which this GPU emulates by float32: take torch.float16 there",)
OFF = re.compile("CUDA is not available.*isabling")  # PyTorch's warning where its autocast has no GPU
OWN_AUTOCAST = re.compile(r"autocast\((?!\s*['\"]cpu)[^)]*\)")


def one_trace(request: ProgramRequest) -> ProgramRequest:
    """The request whose trace is this one's, too: what differs by the label of its number format alone."""
    traced_as = {"mixed_float16": "mixed_bfloat16", "tf32": "float32"}
    return request.model_copy(update={"precision": traced_as.get(request.precision, request.precision)})


class Traced:
    """A question about a PyTorch file, its device and their number left open: the traces of its step.

    Mixed precision has one trace, as kernels of both 16-bit formats are the same; in float16 gradients are divided by
    the loss's scale and checked.
    """

    def __init__(self, request: ProgramRequest) -> None:
        given = Options(
            request.batch_size, request.precision, 1.0, request.sequence_length, given=dict(request.options)
        )
        workload = Model.read(request.module).workload(given)
        assert isinstance(workload, TorchFile)
        self._cache, self._given = None, given
        self._lengths: dict[int, Plan] = {}
        if request.mode in GENERATING:
            if (cache := workload.cache_bytes()) is None:
                raise StudyError(f"{request.module}: {NO_GENERATION}")
            length = workload.length or 2
            prompt = length // 2 if request.mode == "prefill" else 1
            self._cache = cache * (length if request.mode == "decode" else prompt)
            workload = type(workload)(workload.adapter, replace(given, given={**given.given, "length": prompt}))
        self._request, self._workload, self.note = request, workload, None
        self._first = 1 if workload.tunable else request.batch_size
        if isinstance(workload.adapter, ScriptAdapter) and workload.adapter.found is not None:
            self._compiled = workload.compiled
            self.plan: Plan = Recordings(workload.address, workload.adapter.found, request.precision, request.mode)
            self.note = FORWARD if request.mode == "predict" else None
            self._first = workload.adapter.found.batch_size
            self.trace(self._first)
        else:
            self._trace_file(workload, request)

    def _trace_file(self, workload: TorchFile, request: ProgramRequest) -> None:
        """Trace the step of a model file once, in its own number format where it has one."""
        import torch

        precision = workload.number_format(request.precision)
        if precision != request.precision:
            self.note = f"all in {precision}"
        # Of generation, which calls the module for each word, no published times are of compiled modules.
        self._compiled = workload.compiled and self._cache is None
        step = step_of(workload, "bfloat16" if self._cache else precision, request.mode)
        folder = _folder(request, step.precision)
        self.plan = Plan(step, folder if workload.address.kind == "hub" else None, self._copies(workload))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.compiler.set_stance("force_eager")  # a compiled module hides its kernels
            self.trace(self._first)
        workload.check_options()
        path = workload.address.path
        calls = (
            OWN_AUTOCAST.findall(path.read_text(encoding="utf-8")) if path is not None and path.suffix == ".py" else []
        )
        autocasts = any(OFF.match(str(warning.message)) for warning in caught) or (calls and torch.cuda.is_available())
        if autocasts and not request.precision.startswith("mixed"):
            types = {re.search("b?float16|dtype=(?!torch)|$", call)[0] or "float16" for call in calls}  # type: ignore[index]
            if types not in ({"bfloat16"}, {"float16"}):
                raise StudyError(
                    f"{workload.address.label}: which number format its torch.autocast has does not show; leave it out "
                    "of the file and state it: --precision mixed_bfloat16"
                )
            precision = f"mixed_{types.pop()}"
            self.plan, self.note = (
                Plan(replace(step, precision=precision)),
                f"in {precision}, by its own torch.autocast",
            )

    def trace(self, size: int, ways: tuple[str, ...] = ()) -> Trace:
        """The step of so many examples; raises StudyError with the line of the file where it cannot be traced."""
        try:
            return self.plan.trace(size, ways)
        except StudyError:
            raise
        except Exception as error:
            from whichdevice.models.script.torch_fakes import READS_VALUE

            address = self._workload.address
            if isinstance(error, READS_VALUE):
                where = own_line(error, address)
                raise StudyError(
                    f"{address.label}: its shapes depend on values that it reads{where}, and it is too large to "
                    "run here"
                ) from error
            raise StudyError(f"{address.label}: a step cannot be traced: {error_line(error, address)}") from error

    def record(
        self, request: ProgramRequest, target: Target
    ) -> tuple[CompileStatus, str | None, CompileFacts, Work]:
        """Status, reason, facts and work of the step on a target; the batch is divided over its devices."""
        if target.kind == "tpu" and (reason := self._not_on_tpu()):
            raise StudyError(reason)
        way = self._way(request, target)
        if target.kind == "tpu" and (reason := tpu.without_form(way.trace.no_tpu)):
            raise StudyError(reason)
        trace = way.trace if self._cache is None else self._cached(way.trace, request)
        work = self._work(target, trace, request)
        about = (layout_note(target, trace, work, request.mode), frozen_note(target, trace))
        named = filter(None, (self.note, *self._workload.notes, *about))
        notes = [*named, *trace.notes, *COMPILED * self._compiled, *EMULATED * self._emulates(target)]
        facts = facts_on(
            target,
            trace,
            work,
            unit=GENERATED_UNIT if self._cache else self._workload.unit,
            units_per_step=float(request.batch_size),
            way=way.words(target.devices) or None,
            pass_batch=way.batch,
            checkpointing=LIGHT in way.changes or self._workload.tuning.gradient_checkpointing,
            notes=[tpu.PYTORCH, *self._workload.notes] if target.kind == "tpu" else notes,
        )
        needed, available = needed_on(target, trace), target.available(RESERVE)
        if needed > available or facts.memory_tight:
            facts = facts.model_copy(update={"changes": self._changes(request, target, work, available)})
        if request.largest_batch and request.mode == "train" and target.kind == "gpu":
            facts = facts.model_copy(update={"passes": self._passes(request, target, way, work)})
        if request.longest_sequence and request.mode == "train" and isinstance(self._workload, HubModel):
            facts = facts.model_copy(update={"longest_sequence": self._longest(request, target)})
        if (request.largest_batch or needed > available) and not self._workload.tunable:
            facts = facts.model_copy(update=self._largest(request, target, available))
        return *outcome(facts), facts, work

    def _copies(self, workload: TorchFile) -> Copies | None:
        """Return what some versions of libraries hold besides in float32; None where that is not known."""
        return workload.copies if isinstance(workload, HubModel) and self._cache is None else None

    def _not_on_tpu(self) -> str | None:
        """Why the step has no TPU form; None where it has one."""
        if isinstance(self.plan, Recordings):
            return None
        return tpu.NO_4_BITS if self._workload.tuning.method == "qlora" else self._workload.only_on_gpu

    def _cached(self, trace: Trace, request: ProgramRequest) -> Trace:
        """Return the trace with the cache of keys and values, which a decoding step reads whole."""
        nbytes = (self._cache or 0.0) * request.batch_size / request.devices
        memory = dict(trace.memory) | {"cache": nbytes, "peak": trace.memory["peak"] + nbytes}
        read = (Item("memory", "half", 0.0, nbytes, 1),) if request.mode == "decode" else ()
        return replace(trace, work=replace(trace.work, items=(*trace.work.items, *read)), memory=memory)

    def _work(self, target: Target, trace: Trace, request: ProgramRequest) -> Work:
        """Return the work of one device, in the number format of its products."""
        work = work_of(target, trace, request.precision, self._compiled)
        if self._emulates(target):
            items = (replace(one, precision="float32") if one.precision == "half" else one for one in work.items)
            work = replace(work, items=tuple(items))
        return in_float8(work, target) if self._workload.tuning.float8 else work

    def _emulates(self, target: Target) -> bool:
        """Whether a script multiplies in bfloat16, as it says, on a GPU that has no such products."""
        lacks = target.kind == "gpu" and target.refusal("mixed_bfloat16", target.row.software[-1]) is not None
        return lacks and isinstance(self.plan, Recordings) and self.plan.takes_bfloat16

    def _way(self, request: ProgramRequest, target: Target) -> Way:
        """How each device takes its part of the step."""
        trains, tuned = request.mode == "train", self._workload.tunable
        passes = self._workload.tuning.gradient_accumulation if trains else None
        mixed = self.plan.step.precision.startswith("mixed")
        shares = isinstance(self.plan, Recordings) and self.plan.shares_weights
        return way_on(target, self.trace, request.batch_size, mixed, trains and tuned, passes, shares)

    def _seconds(self, request: ProgramRequest, target: Target, work: Work) -> float:
        return forecast_step(work, target.row, request.mode, target.devices).seconds

    def _changes(self, request: ProgramRequest, target: Target, work: Work, available: float) -> list[Change]:
        """Return what to change so that it fits, with the memory that it then needs and the longer step."""

        per_device = request.batch_size // target.devices
        size = 1 if self._workload.tunable else per_device

        def changed_work(trace: Trace) -> Work:
            return self._work(target, accumulated(trace, per_device // size), request)

        return [
            Change(
                name=" and ".join(ways),
                memory_needed=needed_on(target, trace),
                time=self._seconds(request, target, changed_work(trace)) / self._seconds(request, target, work),
            )
            for ways, trace in self.plan.changed(size, lambda trace: needed_on(target, trace) <= available)
        ]

    def _passes(self, request: ProgramRequest, target: Target, way: Way, work: Work) -> list[Pass]:
        """Return what passes of 1, 4, 16 and more examples take, until none fits; then with checkpointing.

        The largest of each is found by halves, to an eighth.
        """
        asked, available = request.batch_size // target.devices, target.available(RESERVE)
        an_example = self._seconds(request, target, work) / asked
        master = way.sharing == "fsdp" and self.plan.step.precision.startswith("mixed")
        passes: list[Pass] = []

        def fits(size: int, ways: tuple[str, ...]) -> bool | None:
            """Return whether a pass fits, which is then kept; None where it cannot be traced."""
            try:
                trace = self.plan.trace(size, ((HALF,) if master else ()) + ways, self._first)
            except Exception:  # one example is too few for a batch norm, other numbers do not fit its shapes
                return None
            trace = on_gpus(trace, target.devices, way.sharing, master)
            if memory_ends(target, trace, self._compiled)[1] > available:
                return False
            time = self._seconds(request, target, self._work(target, trace, request)) / size / an_example
            passes.append(Pass(batch=size, checkpointing=bool(ways), memory_needed=need(trace), time=time))
            return True

        size = 1
        for ways in ((), (LIGHT,)):
            while size <= MAX_PASS:
                known = fits(size, ways)
                if known is False or (known is None and size >= asked):
                    break
                size *= STEP
            low, high = size // STEP, size
            while size <= MAX_PASS and high - low > high // 8:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle, ways) else (low, middle)
        return passes

    def _longest(self, request: ProgramRequest, target: Target) -> int:
        """Return the longest sequence that surely fits with one example in a pass, checkpointed; 0 where none does.

        Memory is traced at lengths that double, and taken to be a line between two of them: it bends upwards.
        """
        assert isinstance(self._workload, HubModel)
        most = self._workload.configuration.longest
        available = target.available(RESERVE)
        light = (LIGHT,) if self._workload.tunable else ()
        mixed, passes = self.plan.step.precision.startswith("mixed"), request.batch_size // target.devices

        def needed(length: int) -> float:
            plan = self._of_length(request, length)
            traced = partial(_with_changes, plan, light)
            return memory_ends(target, way_on(target, traced, request.batch_size, mixed, False, passes).trace)[1]

        low, of_low = 0, 0.0
        high = min(SHORTEST, most)
        while (of_high := needed(high)) <= available:
            if high == most:
                return most
            low, of_low = high, of_high
            high = min(2 * high, most)
        length = low + (high - low) * max(available - of_low, 0.0) / (of_high - of_low) if low else 0.0
        return int(length) // ROUND * ROUND if length >= ROUND else 0

    def _of_length(self, request: ProgramRequest, length: int) -> Plan:
        """Return the traces of the step on sequences of so many tokens."""
        if length not in self._lengths:
            given = replace(self._given, sequence_length=length, given={**self._given.given, "length": length})
            workload = type(self._workload)(self._workload.adapter, given)
            asked = request.model_copy(update={"sequence_length": length, "options": dict(given.given)})
            step = step_of(workload, self.plan.step.precision, request.mode)
            self._lengths[length] = Plan(step, _folder(asked, step.precision), self._copies(workload))
        return self._lengths[length]

    def _largest(self, request: ProgramRequest, target: Target, available: float) -> dict[str, Any]:
        """The largest batch that fits, by a line between two traces, or why none was found."""
        try:
            size = largest_batch(
                lambda size: need(self.trace(size)), request.batch_size // target.devices, available
            )
        except StudyError as error:
            return {"largest_batch_reason": str(error)}
        return {"largest_batch": size * target.devices} if size else {"largest_batch_reason": NONE_FITS}


def _with_changes(plan: Plan, changes: tuple[str, ...], size: int, ways: tuple[str, ...]) -> Trace:
    """Return a trace with some changes more."""
    return plan.trace(size, (*ways, *changes))


def _folder(request: ProgramRequest, precision: str) -> Path:
    """Return where traces of a model or script are kept: a name made of all that they depend on but their batch."""
    asked = request.model_dump(mode="json", include={"module", "mode", "sequence_length", "options"})
    code = Model.read(request.module).hash("whichdevice.forecast.torch.records")
    return TRACES / content_key(asked, precision, code, installed_versions(("torch", "transformers")))


def step_of(workload: TorchFile, precision: str, mode: str) -> Step:
    """The step of a model file: its module, loss and optimiser on copies of its first examples."""
    import torch

    first = {name: torch.from_numpy(np.asarray(array)) for name, array in workload.few().items()}

    def batch(size: int) -> Any:
        return workload.batch(first, torch.arange(size) % len(next(iter(first.values()))))

    def loss(module: Any, given: Any) -> Any:
        inputs, target = given
        if mode != "train":
            return workload.forward(module, inputs)
        return workload.loss(target, workload.forward(module, inputs, target))

    optimizer = workload.traced_optimizer if mode == "train" else None
    step = Step(workload.made_module, batch, loss, optimizer, precision, workload.layers)
    return in_bfloat16(step) if precision == "bfloat16" else step
