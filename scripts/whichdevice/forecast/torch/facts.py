"""Facts of a traced step on a device: how it is taken, its work, its memory, whether it fits. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.numbers import two
from whichdevice.forecast import tpu
from whichdevice.forecast.memory import too_large
from whichdevice.forecast.products import Collective, CompileFacts, CompileStatus
from whichdevice.forecast.targets import Target
from whichdevice.forecast.time_model import forecast_step, time_share
from whichdevice.forecast.torch.memory import (
    BY_LIBRARY,
    FRAGMENTATION,
    FROZEN,
    INPUTS,
    LOGITS,
    RESERVE,
    at_peak,
    ends,
    need,
)
from whichdevice.forecast.torch.several import LASTING, Way, way_that_fits
from whichdevice.forecast.torch.step import Trace
from whichdevice.forecast.work import Item, Work

# Time of a product in 8 bits over one of 16: torchtitan's Llama 3.1 8B on 8 H100, where the one on 128 tests it.
FLOAT8 = 0.59
FLOAT8_FROM, HOPPER = 8.9, 9.0  # compute capability
JOINED = 2  # copies of the logits in float32 that a trace holds at once, and XLA joins with the loss


def way_on(
    target: Target, traced: Callable[[int, tuple[str, ...]], Trace], batch_size: int, mixed: bool, tunable: bool,
    passes: int | None = None, shares: bool = False,
) -> Way:  # fmt: skip
    """Return how each device of a target takes its part of the batch, with its trace; see `way_that_fits`."""
    available = target.available(RESERVE)

    def fits(trace: Trace) -> bool:
        return memory_ends(target, trace)[1] <= available

    return way_that_fits(traced, batch_size // target.devices, target.devices, fits, mixed, tunable, passes, shares)


def needed_on(target: Target, trace: Trace) -> float:
    """Return the bytes of a device that a step takes."""
    if target.kind != "tpu":
        return need(trace)
    joined = need(trace) - JOINED * FRAGMENTATION * trace.memory.get(LOGITS, 0.0)
    return max(joined, sum(trace.memory[part] for part in LASTING))


def memory_ends(target: Target, trace: Trace, compiled: bool = False) -> tuple[float, float]:
    """Return between which bytes of a device a step takes in 8 of 10 cases: it fits where the larger number does."""
    needed = needed_on(target, trace)
    if target.kind == "tpu":
        return tpu.ends(needed, trace.memory.get(INPUTS, 0.0))
    by_library = sum(trace.memory.get(part, 0.0) for part in BY_LIBRARY)
    return ends(needed, target.devices, compiled, by_library)


def work_of(target: Target, trace: Trace, precision: str, compiled: bool = False) -> Work:
    """Return the work of one device: in float16 gradients are divided by the loss's scale and checked."""
    work, gradients = trace.fused if compiled or target.kind == "tpu" else trace.work, trace.memory["gradients"]
    if precision == "tf32":  # traced as float32, whose kernels are the same
        work = work.in_tf32()
    if target.kind == "tpu":
        return tpu.of_trace(work, target.device)
    if precision == "mixed_float16" and gradients:
        work = replace(work, items=(*work.items, Item("optimizer", "float32", 0.0, 2 * gradients, 1)))
    return work


def in_float8(work: Work, target: Target) -> Work:
    """Return work whose 16-bit products are in 8 bits; raises StudyError where a device has none."""
    capability = float(target.row.compute_capability or 0) if target.row.vendor == "NVIDIA" else 0.0
    if capability < FLOAT8_FROM:
        raise StudyError("float8 needs a GPU of Ada, Hopper or Blackwell")
    items = (
        replace(item, operations=item.operations * FLOAT8)
        if (item.kind, item.precision) == ("product", "half")
        else item
        for item in work.items
    )
    marks = work.untested if capability == HOPPER else (*work.untested, "float8 products")
    return replace(work, items=tuple(items), untested=marks)


def layout_note(target: Target, trace: Trace, work: Work, mode: str) -> str | None:
    """Return what the other layout of images gives, where it was timed: operation by operation on NVIDIA's GPUs."""
    if not trace.images or work.software != "eager" or target.row.vendor != "NVIDIA":
        return None
    times = [forecast_step(form, target.row, mode, target.devices).seconds for form in (work.in_other_layout(), work)]
    ratio = round(times[0] / times[1], 1)
    if ratio == 1.0:
        return None
    layout, other = ("last", "first") if work.has_channels_last else ("first", "last")
    how = "" if other == "first" else ": .to(memory_format=torch.channels_last) of model and images"
    return f"images have channels {layout}; with channels {other} a step takes about {ratio:g} times as long{how}"


def facts_on(target: Target, trace: Trace, work: Work, **facts: Any) -> CompileFacts:
    """Return the facts of a step on a target: its memory, its work, and `facts`."""
    available, needed = target.available(RESERVE), needed_on(target, trace)
    low, high = memory_ends(target, trace, work.software == "torch.compile")
    sent = sum(item.bytes * item.count for item in work.items if item.kind == "collective")
    return CompileFacts(
        memory=target.memory,
        memory_available=available,
        memory_needed=needed,
        memory_missing=needed - available if needed > available else None,
        memory_tight=low <= available < high,
        memory_parts=at_peak(trace.memory),
        operations=work.operations,
        nbytes=work.bytes,
        kernels=work.kernels,
        **_forward(target, trace, any(item.precision == "tf32" for item in work.items)),
        collectives={"all": Collective(count=1, nbytes=sent)} if sent else {},
        **facts,
    )


def _forward(target: Target, trace: Trace, tf32: bool) -> dict[str, float]:
    """Return the shares of the device's time and of the kernels that come before the backward pass."""
    if trace.forward is None or not trace.work.kernels or target.kind == "tpu":
        return {}
    part, step = (work.in_tf32() if tf32 else work for work in (trace.forward, trace.work))
    try:
        share = time_share(part, step, target.row)
    except StudyError:  # the sheet lacks a number: no forecast either
        return {}
    return {"forward_share": share, "forward_kernels": trace.forward.kernels / trace.work.kernels}


def frozen_note(target: Target, trace: Trace) -> str | None:
    """Return what FSDP needs besides where frozen weights share a parameter with trained ones, if that may not fit."""
    frozen, available = trace.memory.get(FROZEN, 0.0), target.available(RESERVE)
    without, most = (ends(need(trace), target.devices, by_library=nbytes)[1] for nbytes in (0.0, frozen))
    if not without <= available < most:
        return None
    return (
        f"FSDP that makes one parameter of a layer and its adapters needs {two(frozen / 1e9)} GB more on each GPU, for "
        "gradients of frozen weights; fully_shard (FSDP2) does not, nor does peft's fsdp_auto_wrap_policy"
    )


def outcome(facts: CompileFacts) -> tuple[CompileStatus, str | None]:
    """Return whether the step fits, and why not."""
    needed, available = facts.memory_needed or 0.0, facts.memory_available or 0.0
    if needed <= available:
        return "ok", None
    return "does_not_fit", too_large(needed, available)
