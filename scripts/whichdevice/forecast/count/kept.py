"""The count of a step of JAX, Keras or TensorFlow, which serves all devices, and its record on each. Needs no JAX.

    kept = read_count(path)
    record = record_on(kept, request)
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from whichdevice.base.files import write_atomically
from whichdevice.base.parts import Integer, Part, read_as
from whichdevice.forecast import tpu
from whichdevice.forecast.count.recurrent import items_of
from whichdevice.forecast.memory import NONE_FITS, RESERVE, largest_batch, too_large
from whichdevice.forecast.products import Collective, CompiledRecord, CompileFacts, Pass, ProgramRequest
from whichdevice.forecast.targets import Target, find_target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.work import Item, Work
from whichdevice.models.loading import Model

# The share by which the counted memory may miss the memory of XLA's own program: 19 of 21 steps above 1 GB are within.
SPREAD = 0.25
# Number formats that share a count: kernels of both 16-bit formats are the same, and kernels of float32 and TF32.
SAME = {"mixed_float16": "mixed_bfloat16", "float16": "bfloat16", "tf32": "float32"}
OF_DEVICE = {"device", "devices", "workload", "timeout", "longest_sequence"}  # of a request, what a count does not know


class OneSize(Part):
    """A step of one batch on one device: kernels, and bytes of memory."""

    batch: Integer
    gpu: dict[str, Any]  # Work.digest(), recurrent layers as cuDNN's
    tpu: dict[str, Any]  # the same, small loops as time steps
    lasting: float  # arguments, and results that take no argument's place
    temporary: float  # the most that lives between

    @property
    def memory(self) -> float:
        """Bytes on a GPU."""
        return self.lasting + self.temporary


def one_size(step: Any, batch: int, precision: str, mode: str) -> tuple[OneSize, bool]:
    """Count a step of one size, and whether its note holds: its recurrent layers are cuDNN's, or it has none."""
    counted = step.counted()
    whole = counted.total()
    layers = {layer.steps for layer in step.recurrent}
    without = counted.total(layers) if layers else whole
    fused = not layers or without.work("gpu").kernels != whole.work("gpu").kernels
    if layers and fused:
        for item in items_of(step.recurrent, precision, batch, mode == "train"):
            without.put(item)
    size = OneSize(
        batch=batch,
        gpu=(without if fused else whole).work("gpu").digest(),
        tpu=counted.total(small_loops=tpu.SMALL_LOOPS).work("gpu").digest(),
        lasting=counted.arguments + counted.results,
        temporary=counted.temporary,
    )
    return size, fused


class StepCount(Part):
    """The count of a step as it is kept."""

    sizes: list[OneSize]  # the batch that was asked for; twice of it, where the largest batch is wanted
    weights: float  # bytes, as the next two
    optimizer: float
    gradients: float
    arrays: Integer  # that a call of the step hands over
    keras: bool = False  # whether Keras' `fit` makes the call
    unit: str = "example"
    units: float | None = None  # of a step on one device
    notes: list[str] = Field(default_factory=list)  # in what the step is another than the one that a GPU would run


def write_count(count: StepCount, path: Path) -> None:
    """Replace the file at `path` atomically."""
    write_atomically(count.model_dump_json(), path)


def read_count(path: Path) -> StepCount:
    """Read a count; raises StudyError where there is none."""
    return read_as(StepCount, path, "a counted step")


def record_on(count: StepCount, asked: ProgramRequest, draft: CompiledRecord) -> CompiledRecord:
    """Return the record of the step on the device of a request; `draft` has its versions and code."""
    target, size = find_target(asked.device, asked.devices), count.sizes[0]
    work, needed = work_on(count, size, asked, target), _memory_on(size, target)
    available, (low, high) = target.available(RESERVE), _ends(needed, target)
    facts = CompileFacts(
        memory=target.memory,
        memory_available=available,
        memory_needed=needed,
        memory_missing=needed - available if needed > available else None,
        memory_tight=low <= available < high,
        memory_parts={
            "weights": count.weights,
            "optimizer": count.optimizer,
            "activations": size.temporary,
        },
        operations=work.operations,
        nbytes=work.bytes,
        kernels=work.kernels,
        arrays=count.arrays,
        fit=count.keras,
        collectives=_collectives(work),
        unit=count.unit,
        units_per_step=(count.units or 0.0) * target.devices,
        notes=_notes(count, target),
    )
    if asked.largest_batch and len(count.sizes) > 1:
        facts = facts.model_copy(update=_largest(count, asked, target))
    status, reason = ("ok", None) if needed <= available else ("does_not_fit", too_large(needed, available))
    return draft.model_copy(
        update={"asked": asked, "status": status, "reason": reason, "facts": facts, "work": work.digest()}
    )


def work_on(count: StepCount, size: OneSize, asked: ProgramRequest, target: Target) -> Work:
    """Return the work of one device: in its number format, with the exchange of gradients of several."""
    on_tpu = target.kind == "tpu"
    work = Work.from_dict(size.tpu if on_tpu else size.gpu)
    added: list[Item] = []
    if count.gradients and asked.mode == "train":
        if asked.precision == "mixed_float16":  # gradients are divided by the loss's scale and checked
            added.append(Item("memory", "", 0.0, 2 * count.gradients, 1))
        if target.devices > 1:
            added.append(Item("collective", "", 0.0, count.gradients, 1, None, target.devices))
    work = replace(work, items=(*work.items, *added))
    if asked.precision == "tf32":
        work = work.in_tf32()
    return tpu.of_program(work, target.device) if on_tpu else work


def _memory_on(size: OneSize, target: Target) -> float:
    if target.kind == "gpu":
        return size.memory
    return tpu.memory_needed(Work.from_dict(size.tpu), size.lasting, size.temporary)


def _ends(needed: float, target: Target) -> tuple[float, float]:
    return tpu.ends(needed) if target.kind == "tpu" else (needed / (1 + SPREAD), needed / (1 - SPREAD))


def _collectives(work: Work) -> dict[str, Collective]:
    moved = [item for item in work.items if item.kind == "collective"]
    nbytes = sum(item.bytes * item.count for item in moved)
    return {"all": Collective(count=round(sum(item.count for item in moved)), nbytes=nbytes)} if moved else {}


def _notes(count: StepCount, target: Target) -> list[str]:
    if target.kind == "gpu":
        return count.notes
    return [tpu.KERAS_ESTIMATE if count.keras else tpu.ESTIMATE]  # in place of the notes on cuDNN's layers


def _largest(count: StepCount, asked: ProgramRequest, target: Target) -> dict[str, Any]:
    """Return the largest batch, and passes of the sizes that fit: bytes and kernels are on a line between two sizes."""
    first, second = count.sizes
    available, trains = target.available(RESERVE), asked.mode == "train"
    bytes_of_example = (_memory_on(second, target) - _memory_on(first, target)) / (second.batch - first.batch)

    def need(size: int) -> float:
        return _memory_on(first, target) + (size - first.batch) * bytes_of_example

    largest = largest_batch(need, first.batch, available)
    if not largest:
        return {"largest_batch_reason": NONE_FITS}
    works = [work_on(count, size, asked, target) for size in count.sizes]

    def seconds(size: int) -> float:
        work = works[0].deepened(works[1], 1 + (size - first.batch) / (second.batch - first.batch))
        return forecast_step(work, target.row, asked.mode, target.devices).seconds / size

    sizes = sorted({first.batch, second.batch, largest}) if trains and need(first.batch) <= available else []
    passes = [
        Pass(batch=size, checkpointing=False, memory_needed=need(size), time=seconds(size) / seconds(first.batch))
        for size in sizes
        if need(size) <= available
    ]
    return {"largest_batch": largest * target.devices, "pass_batch": first.batch, "passes": passes}


def counted_step(asked: ProgramRequest) -> dict[str, Any]:
    """Return all of a request that the count of a step depends on, with the batch of one device."""
    step = asked.model_dump(mode="json", exclude=OF_DEVICE)
    precision = SAME.get(asked.precision, asked.precision)
    return step | {"precision": precision, "batch_size": batch_of_one(asked)}


def batch_of_one(asked: ProgramRequest) -> int:
    """Return the batch of one device: several share the batch of a model, and each does a whole operation."""
    return asked.batch_size // (asked.devices if shares_batch(asked) else 1)


def shares_batch(asked: ProgramRequest) -> bool:
    """Return whether several devices share the batch of a step."""
    return asked.devices > 1 and Model.read(asked.module).has_model
