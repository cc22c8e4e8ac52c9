"""One forecast, from its record to the table and the answer: what is known of a step on a device that nobody ran."""

from dataclasses import dataclass, field, replace
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.forecast import tpu
from whichdevice.forecast.products import CompiledRecord
from whichdevice.forecast.targets import Target, find_target
from whichdevice.forecast.time_model import MEASURED_HOST_SD, forecast_step
from whichdevice.forecast.work import Work


def column(text: str, default: Any = None) -> Any:
    """A field with its meaning, which documents the column of table `forecasts`."""
    return field(default=default, metadata={"text": text})


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A step on a device. Times in seconds, memory in bytes; None: not known.

    A step that does not fit a GPU still has the time that it would take with more memory.
    """

    device: str = column("row of config/hardware.csv", "")
    devices: int | None = column("GPUs, TPU chips, or cores on TPU v2 and v3, that share the batch")
    slice: str | None = column("TPU slice")
    kind: str | None = column("gpu or tpu")
    workload: str | None = column("workload, as the config names it")
    module: str | None = column("workload file")
    precision: str | None = column("number format")
    batch_size: int | None = column("examples per step over all devices; for matmul, N")
    sequence_length: int | None = column("steps per sequence, where the config sets it")
    mode: str | None = column(
        "train: a training step; predict: the forward pass; prefill: the prompts; decode: a token"
    )
    status: str = column(
        "ok, does_not_fit, refused, failed, timed_out, out_of_memory (of this host), unavailable", "failed"
    )
    reason: str | None = column("why, for every status but ok")
    evidence: str | None = column("forecast: may name candidates, decides nothing")
    step_time: float | None = column(
        "s, forecast of one step: median of the larger of the device's and the host's time"
    )
    step_time_low: float | None = column("s, lower end of its 80 % interval")
    step_time_high: float | None = column("s, upper end of its 80 % interval")
    throughput: float | None = column("units per s at the forecast step time")
    unit: str | None = column("what throughput counts")
    known_device: bool | None = column(
        "whether published times of this kind of device were among those it was tested on"
    )
    known_family: bool | None = column("whether published times of this kind of model were")
    software: str | None = column("what runs the step: xla, eager or torch.compile; on a TPU xla of a GPU or PyTorch")
    family: str | None = column("the kind of model that the program is")
    chip: str | None = column("the device without form and memory; rows of one chip share their own error")
    device_time: float | None = column("s, median without the host")
    log_sd_shared: float | None = column("spread of log time that all devices of a question share")
    log_sd_own: float | None = column("spread of log time of the chip alone")
    host_time: float | None = column(
        "s, in which the host sends off the arrays and kernels of the program, by one measurement"
    )
    host_log_sd: float | None = column("its log spread")
    note: str | None = column("what makes the interval wider")
    step_notes: tuple[str, ...] = column("JSON: in what the step is another than the one that the device would run", ())
    own_step_time: float | None = column("s, fastest measured step on this very device, in this number format")
    residual: float | None = column("own_step_time / step_time")
    fits: bool | None = column("whether the memory needed is available")
    memory_needed: float | None = column("bytes on one device")
    memory_available: float | None = column("bytes that are left to a program on one device")
    memory_tight: bool | None = column("so near to the memory available that the step may or may not fit")
    weights: float | None = column("bytes, with buffers; of a traced step, as the next three")
    gradients: float | None = column("bytes")
    optimizer: float | None = column("bytes of its state")
    activations: float | None = column("bytes that the forward pass keeps for the backward pass")
    update: float | None = column(
        "bytes of copies that the optimiser's update holds for a while, where the step peaks there"
    )
    context: float | None = column(
        "bytes of the GPU's memory that a program cannot have: CUDA's context and workspaces"
    )
    way: str | None = column("how GPUs share a traced step, and what makes it fit: checkpointing, passes")
    changes: tuple[dict[str, Any], ...] = column(
        "JSON: what to change so that it takes less memory, bytes then and how much longer", ()
    )
    feed: tuple[dict[str, Any], ...] = column(
        "JSON: what keeps a TPU's matrix units idle, what to set instead, and the time of an example then", ()
    )
    passes: tuple[dict[str, Any], ...] = column(
        "JSON: passes of all sizes that fit: memory, and an example's time over its time in the step", ()
    )
    pass_batch: int | None = column("examples of one pass on one device, of a traced step")
    checkpointing: bool | None = column("whether a traced step computes its activations again")
    largest_batch: int | None = column(
        "largest batch that fits, by a line between two sizes"
    )
    largest_batch_reason: str | None = column("why none was found")
    longest_sequence: int | None = column("tokens that fit with one example in a pass; 0: none does")
    usd_per_hour: float | None = column("on-demand price of these devices, at the median of providers")
    provider: str | None = column("who offers them at the lowest price")
    price: str | None = column("where the offer is from, and when that was read; or why there is none")
    operations: float | None = column("of matrix products and convolutions, on one device")
    nbytes: float | None = column("to and from off-chip memory of one device")
    kernels: float | None = column("on one device")
    forward_share: float | None = column("share of the device's time before the backward pass, of a traced step")
    forward_kernels: float | None = column("share of its kernels")
    collectives: int | None = column("on one device")
    collective_bytes: float | None = column("on one device")
    versions: str | None = column("of the framework that the step was counted with")
    code_hash: str | None = column("code that the record depends on")
    record: str | None = column("path of the record")


def forecast_of(record: CompiledRecord, path: str | None = None) -> Forecast:
    """Return the forecast of a record: memory from its facts, time from its work."""
    asked = record.asked
    target = find_target(asked.device, asked.devices)
    known = Forecast(
        device=asked.device,
        devices=asked.devices,
        slice=target.slice.name if target.slice is not None else None,
        kind=target.kind,
        workload=asked.workload,
        module=asked.module,
        precision=asked.precision,
        batch_size=asked.batch_size,
        sequence_length=asked.sequence_length,
        mode=asked.mode,
        status=record.status,
        reason=record.reason,
        evidence="forecast",
        versions="; ".join(f"{name} {number}" for name, number in sorted(record.versions.items())) or None,
        code_hash=record.code_hash,
        record=path,
    )
    known = replace(known, **_facts(record))
    known = replace(known, step_notes=(*known.step_notes, *target.notes))
    if target.row.kind != "gpu":
        known = replace(known, context=None)  # CUDA's
    try:
        return replace(known, **_time(record, target))
    except StudyError as error:
        return replace(known, status="failed", reason=str(error))


def _facts(record: CompiledRecord) -> dict[str, Any]:
    facts = record.facts
    if facts is None:
        return {}
    names = (
        "memory_needed", "memory_available", "memory_tight", "way", "largest_batch",
        "largest_batch_reason", "longest_sequence", "operations", "nbytes", "kernels", "unit",
        "pass_batch", "checkpointing", "forward_share", "forward_kernels",
    )  # fmt: skip
    parts = ("weights", "gradients", "optimizer", "activations", "update")
    known = {name: getattr(facts, name) for name in names} | {name: facts.memory_parts.get(name) for name in parts}
    known |= {
        "fits": None if facts.memory_needed is None else facts.memory_missing is None,
        "changes": tuple(change.model_dump(exclude_none=True) for change in facts.changes),
        "passes": tuple(one.model_dump() for one in facts.passes),
        "step_notes": tuple(facts.notes),
    }
    if facts.memory_parts and facts.memory_available:
        known["context"] = facts.memory - facts.memory_available
    if facts.kernels is not None:
        known["collectives"] = sum(collective.count for collective in facts.collectives.values())
        known["collective_bytes"] = sum(collective.nbytes for collective in facts.collectives.values())
    return known


def _time(record: CompiledRecord, target: Target) -> dict[str, Any]:
    if record.work is None:
        return {}
    asked, facts = record.asked, record.facts
    host = (facts.host_time, MEASURED_HOST_SD) if facts is not None and facts.host_time else None
    work = Work.from_dict(record.work)
    step = forecast_step(work, target.row, asked.mode, asked.devices, host)
    units = facts.units_per_step if facts is not None else None
    names = (
        "device_time", "software", "family", "chip", "log_sd_shared", "log_sd_own", "host_time", "host_log_sd",
        "known_device", "known_family",
    )  # fmt: skip
    return {name: getattr(step, name) for name in names} | {
        "step_time": step.seconds,
        "step_time_low": step.low,
        "step_time_high": step.high,
        "throughput": units / step.seconds if units and step.seconds else None,
        "note": step.note or None,
        "feed": tpu.changes(work, target.row, asked.batch_size // asked.devices) if target.kind == "tpu" else (),
    }
