"""A training step on several GPUs, from its trace on one: bytes of a rank, and what the ranks send each other.

    found = on_gpus(trace, 8, "fsdp")      # each rank's Work with its collectives, and its memory

`ddp` keeps everything on every GPU and adds gradients up. `fsdp` (ZeRO-3) shares weights, gradients and the optimiser's
state out; a rank gathers the weights of a layer for its forward and once more for its backward pass, and keeps its part
of the sum of gradients. `zero2` gathers them once. The trace is of one rank's batch.
"""

from dataclasses import replace
from typing import Literal

from whichdevice.forecast.torch.trace import Trace
from whichdevice.forecast.work import Item, Work

Sharing = Literal["ddp", "fsdp", "zero2"]
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
GATHERED_LAYERS = 2  # whose weights a rank holds whole: the one at work and the next
MASTER = 2  # times the bytes of a weight of 16 bits, in float32


def on_gpus(trace: Trace, devices: int, sharing: Sharing, master: bool = False, accumulation: int = 1) -> Trace:
    """The step of one of `devices` ranks, each with the batch of `trace`.

    With `master` the trace is in 16 bits; weights, gradients and the optimiser's state are kept in float32 beside it.
    `accumulation` batches make one step: `trace` is of all of them.
    """
    if master:
        trace = with_masters(trace)
    if devices == 1:
        return trace
    return _replicated(trace, devices) if sharing == "ddp" else _sharded(trace, devices, sharing, master, accumulation)


def with_masters(trace: Trace) -> Trace:
    """A step in 16 bits with weights, gradients and moments kept in float32."""
    memory = dict(trace.memory)
    for part in ("weights", "gradients", "optimizer"):
        memory["peak"] += memory[part] * (MASTER - 1)
        memory[part] *= MASTER
    items = (
        replace(each, bytes=each.bytes * MASTER) if each.kind == "optimizer" else each for each in trace.work.items
    )
    return replace(trace, work=replace(trace.work, items=tuple(items)), memory=memory)


def accumulated(trace: Trace, batches: int) -> Trace:
    """A step of so many batches, from one of one batch: gradients stay beside the passes."""
    if batches == 1:
        return trace
    items = (
        each if each.kind == "optimizer" else replace(each, count=each.count * batches) for each in trace.work.items
    )
    memory = dict(trace.memory)
    held = sum(memory[part] for part in ("weights", "gradients", "optimizer", "working"))
    memory["peak"] = max(memory["peak"], held)
    return replace(trace, work=replace(trace.work, items=tuple(items)), memory=memory)


def _replicated(trace: Trace, devices: int) -> Trace:
    """Gradients are added up in buckets, which hold them a second time."""
    gradients = trace.memory["gradients"]
    memory = dict(trace.memory) | {"working": trace.memory["working"] + gradients}
    memory["peak"] += gradients
    return replace(trace, work=_with(trace.work, [_sum_of(gradients, devices, 1)]), memory=memory)


def _sharded(trace: Trace, devices: int, sharing: Sharing, master: bool, accumulation: int) -> Trace:
    memory = dict(trace.memory)
    plain = 1 / MASTER if master else 1.0  # of what is gathered: 16 bits
    whole, sums = memory["weights"] * plain, memory["gradients"] * plain
    layer = memory.get("layer", memory["weights"]) * plain
    for part in ("weights", "gradients", "optimizer"):
        memory[part] /= devices
    outside = whole - memory.get("layers", 0.0) * layer  # embeddings and the head stay whole
    held = min(whole, outside + GATHERED_LAYERS * layer) if sharing == "fsdp" else whole
    reduced = layer if sums else 0.0
    memory["working"] += held + reduced
    memory["peak"] = memory["weights"] + memory["gradients"] + memory["optimizer"] + memory["working"]
    gathers = 2 * accumulation if sharing == "fsdp" else 1
    items = [_half_of(whole, devices, gathers), _half_of(sums, devices, accumulation)]
    shared = [
        replace(each, bytes=each.bytes / devices, count=each.count) if each.kind == "optimizer" else each
        for each in trace.work.items
    ]
    return replace(trace, work=_with(replace(trace.work, items=tuple(shared)), items), memory=memory)


def _sum_of(nbytes: float, devices: int, count: float) -> Item:
    """An all-reduce: every byte passes a rank's link twice."""
    return Item("collective", "", 0.0, nbytes, count, None, devices)


def _half_of(nbytes: float, devices: int, count: float) -> Item:
    """An all-gather or a reduce-scatter: half of an all-reduce."""
    return _sum_of(nbytes / 2, devices, count)


def _with(work: Work, items: list[Item]) -> Work:
    return replace(work, items=(*work.items, *(each for each in items if each.bytes)))
