"""A training step on several GPUs, from its trace on one: bytes of a rank, and what the ranks send each other.

    found = on_gpus(trace, 8, "fsdp")      # each rank's Work with its collectives, and its memory

`ddp` keeps everything on every GPU and adds gradients up. `fsdp` (ZeRO-3) shares weights, gradients and the optimiser's
state out; a rank gathers the weights of a layer for its forward and again for its backward pass, and keeps its part of
the sum of gradients. `zero2` gathers them once. The trace is of one rank's batch.

Where some weights are frozen, FSDP may need more than that: a layer that is one flat parameter has one gradient, also
of what is frozen (PyTorch's documentation of FullyShardedDataParallel: "higher than expected gradient memory usage").
`fully_shard` has none, nor have adapters that are wrapped apart from their layer. FROZEN is what that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from whichdevice.forecast.torch.memory import FROZEN, HALF, LIGHT
from whichdevice.forecast.torch.step import Trace
from whichdevice.forecast.work import Item

Sharing = Literal["ddp", "fsdp", "zero2"]
NAMES = {"ddp": "DDP", "fsdp": "FSDP"}
BATCHES = (4, 1)  # of one pass of a rank, that are tried
GATHERED_LAYERS = 2  # whose weights a rank holds whole: the one at work and the next
LASTING = ("weights", "gradients", "optimizer")  # parts of the memory that stay from pass to pass
MASTER = 2  # times the bytes of a weight of 16 bits, in float32


@dataclass(frozen=True)
class Way:
    """How a step is taken on each of several ranks, and its trace there."""

    trace: Trace
    batch: int  # of one pass
    accumulation: int
    sharing: Sharing
    changes: tuple[str, ...]

    def words(self, devices: int) -> str:
        """Return what of it the question left open."""
        batch = f"{self.accumulation} passes of {self.batch}" if self.accumulation > 1 else ""
        batch += " a GPU" if batch and devices > 1 else ""
        return ", ".join(filter(None, [NAMES[self.sharing] if devices > 1 else "", *self.changes, batch]))


def way_that_fits(
    traced: Callable[[int, tuple[str, ...]], Trace],
    size: int,
    devices: int,
    fits: Callable[[Trace], bool],
    mixed: bool = False,
    tunable: bool = False,
    accumulation: int | None = None,
    shares: bool = False,
) -> Way:
    """Return how a rank takes a step of `size` examples so that it `fits`, the fastest first; else what needs least.

    `traced(n, changes)` is the step of n examples on one GPU. `mixed` means 16 bits beside float32, which a rank of
    FSDP keeps apart. Where the question leaves it open (`tunable`), a step may be several passes, with checkpointing;
    `shares`: the weights are shared out.
    """
    ways = [
        (light, sharing, batch)
        for light in ((), (LIGHT,))[: 1 + tunable]
        for sharing in (("ddp", "fsdp")[shares:] if devices > 1 else ("ddp",))
        for batch in _passes(size, tunable, accumulation)
    ]
    best: Way | None = None
    for light, sharing, batch in ways:
        master = mixed and sharing == "fsdp"
        trace = accumulated(traced(batch, ((HALF,) if master else ()) + light), size // batch)
        way = Way(on_gpus(trace, devices, sharing, master, size // batch), batch, size // batch, sharing, light)  # type: ignore[arg-type]
        if fits(way.trace):
            return way
        if best is None or way.trace.memory["peak"] < best.trace.memory["peak"]:
            best = way
    assert best is not None
    return best


def _passes(size: int, tunable: bool, accumulation: int | None) -> list[int]:
    """Batches of one pass that are tried: as many passes as were asked for, else what is quick."""
    if accumulation is not None:
        return [max(1, size // accumulation)]
    smaller = [part for part in BATCHES if part < size and size % part == 0] if tunable else []
    return smaller or [size]


def on_gpus(trace: Trace, devices: int, sharing: Sharing, master: bool = False, accumulation: int = 1) -> Trace:
    """The step of one of `devices` ranks, each with the batch of `trace`.

    With `master` the trace is in 16 bits, and weights, gradients and the optimiser's state are kept in float32, too.
    `accumulation` batches make one step: `trace` is of all of them.
    """
    if master:
        trace = with_masters(trace)
    if devices == 1:
        return trace
    return _replicated(trace, devices) if sharing == "ddp" else _sharded(trace, devices, sharing, master, accumulation)


def with_masters(trace: Trace) -> Trace:
    """A step in 16 bits with weights, gradients and moments kept in float32."""
    memory = _memory(trace)
    for part in LASTING:
        memory["passes"] += memory[part] * (MASTER - 1)
        memory[part] *= MASTER
    memory["update"] *= MASTER
    memory["peak"] = peak(memory)
    return _with(trace, memory, lambda item: _updating(item, MASTER))


def accumulated(trace: Trace, batches: int) -> Trace:
    """A step of so many batches, from one of one batch: gradients stay beside the passes."""
    if batches == 1:
        return trace
    held = sum(trace.memory[part] for part in (*LASTING, "working"))
    memory = _memory(trace) | {"passes": max(_memory(trace)["passes"], held)}
    memory["peak"] = peak(memory)
    return _with(trace, memory, lambda item: item if _updates(item) else replace(item, count=item.count * batches))


def _memory(trace: Trace) -> dict[str, float]:
    """The parts of the memory; of a trace that does not keep them apart, the update holds nothing."""
    return {"passes": trace.memory["peak"], "update": 0.0} | dict(trace.memory)


def peak(memory: Mapping[str, float]) -> float:
    """The larger of what the passes and the optimiser's update hold."""
    return max(memory["passes"], sum(memory.get(part, 0.0) for part in (*LASTING, "update")))


def _replicated(trace: Trace, devices: int) -> Trace:
    """Gradients are added up in buckets, which hold them a second time."""
    gradients = trace.memory["gradients"]
    parts = ("working", "passes", "update", "peak")
    memory = _memory(trace) | {part: nbytes + gradients for part, nbytes in _memory(trace).items() if part in parts}
    return _with(trace, memory, lambda item: item, [_sum_of(gradients, devices, 1)])


def _sharded(trace: Trace, devices: int, sharing: Sharing, master: bool, accumulation: int) -> Trace:
    memory = _memory(trace)
    plain = 1 / MASTER if master else 1.0  # of what is gathered: 16 bits
    weights, sums = memory["weights"] * plain, memory["gradients"] * plain
    layer = memory.get("layer", weights)
    for part in (*LASTING, "update"):
        memory[part] /= devices
    outside = weights - memory.get("layers", 0.0) * layer  # embeddings and the head stay whole
    held = min(weights, outside + GATHERED_LAYERS * layer) if sharing == "fsdp" else weights
    if 0 < sums < weights:
        memory[FROZEN] = memory["weights"] * (1 - sums / weights)
    memory["working"] += held + (layer if sums else 0.0)
    memory["passes"] = sum(memory[part] for part in (*LASTING, "working"))
    memory["peak"] = peak(memory)
    gathers = 2 * accumulation if sharing == "fsdp" else 1
    sent = [_half_of(weights, devices, gathers), _half_of(sums, devices, accumulation)]
    return _with(trace, memory, lambda item: _updating(item, 1 / devices), sent)


def _updates(item: Item) -> bool:
    return item.kind == "optimizer"


def _updating(item: Item, share: float) -> Item:
    return replace(item, bytes=item.bytes * share) if _updates(item) else item


def _sum_of(nbytes: float, devices: int, count: float) -> Item:
    """An all-reduce: every byte passes a rank's link twice."""
    return Item("collective", "", 0.0, nbytes, count, None, devices)


def _half_of(nbytes: float, devices: int, count: float) -> Item:
    """An all-gather or a reduce-scatter: half of an all-reduce."""
    return _sum_of(nbytes / 2, devices, count)


def _with(
    trace: Trace, memory: Mapping[str, float], change: Callable[[Item], Item], added: Sequence[Item] = ()
) -> Trace:
    """The trace with each item changed and some added, eager and compiled."""
    sent = tuple(item for item in added if item.bytes)
    work, fused = (replace(side, items=(*map(change, side.items), *sent)) for side in (trace.work, trace.fused))
    forward = trace.forward and replace(trace.forward, items=tuple(map(change, trace.forward.items)))
    return replace(trace, work=work, fused=fused, forward=forward, memory=memory)
