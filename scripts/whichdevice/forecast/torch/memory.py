"""Whether a traced step fits a device's memory, and what to change so that it does.

    plan = Plan(step)
    need(plan.trace(32))                    # bytes of the device that a step of 32 examples takes
    need(plan.trace(32, ("gradient checkpointing",)))

PyTorch's allocator keeps pieces that nothing fits into: the peak of live storages grows by FRAGMENTATION. It and
RESERVE were found on timm's table of training times, whose batches are the largest that ran in 24 GB.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.files import write_atomically
from whichdevice.forecast.torch.step import Step, Trace
from whichdevice.forecast.work import Item
from whichdevice.models.tuning import Tuning

FRAGMENTATION = 1.09  # of the peak
SPREAD = 0.04  # of the need: with one so near to the memory fragmentation decides, in 8 of 10 cases
SHARDED_SPREAD = 0.1  # where GPUs share weights: a library gathers other pieces, in other buffers
FROZEN = "frozen"  # part of the memory: gradients of frozen weights that share a parameter with trained ones
LOGITS, SINGLE = "logits", "single"  # copies in float32: of what a decoder returns, and beside weights of 4 bits
INPUTS = "inputs"  # of checkpointed layers
BY_LIBRARY = (FROZEN, LOGITS, SINGLE)  # what some versions of libraries hold besides
COMPILED_SAVES = 0.2  # of the need, that torch.compile may take less
RESERVE = 0.9e9  # bytes of a GPU: CUDA's context with its kernels, handles and workspaces
SAME = 0.01  # of the need and the operations: by so much a step of few blocks may miss the whole one
Copies = Callable[[int, bool], Mapping[str, float]]
LIKE = 3  # children of one class from which on a container's are blocks
EIGHT_BIT = 0.25  # of the bytes of an optimiser's state in float32


def need(trace: Trace) -> float:
    """Bytes that the step takes of those that RESERVE leaves; what lives all the time leaves no pieces."""
    lasting = trace.memory["weights"] + trace.memory["optimizer"]
    return lasting + (trace.memory["peak"] - lasting) * FRAGMENTATION


def ends(needed: float, devices: int = 1, compiled: bool = False, by_library: float = 0.0) -> tuple[float, float]:
    """Return between which bytes a step takes in 8 of 10 cases; between them it may fit or not.

    `by_library` are bytes that it takes besides with some versions of libraries.
    """
    spread = SPREAD if devices == 1 else SHARDED_SPREAD
    return needed / (1 + spread) * (1 - COMPILED_SAVES * compiled), (needed + by_library) / (1 - spread)


def at_peak(memory: Mapping[str, float]) -> dict[str, float]:
    """Return what a step holds at its peak: activations in its passes, or the copies of the optimiser's update."""
    updates = "passes" in memory and memory["peak"] > memory["passes"]
    return {name: nbytes for name, nbytes in memory.items() if name != ("activations" if updates else "update")}


class Plan:
    """The traces of a step, by its batch size and by what is changed, each made once: also for later, in `folder`.

    Where a file makes many equal blocks, changes are traced on a few, the rest by difference: where that gives the
    step without changes. `copies` has the parts of BY_LIBRARY by batch size, and whether QLoRA is a change.
    """

    def __init__(self, step: Step, folder: Path | None = None, copies: Copies | None = None) -> None:
        self.step, self.folder, self._copies = step, folder, copies
        self._traces: dict[tuple[int, tuple[str, ...]], Trace] = {}
        self._few: dict[int, Trace | None] = {}

    @cached_property
    def shallow(self) -> Step | None:
        """The step with few of its blocks; None where it has few, or no such step can be made."""
        try:
            return shallow(self.step)
        except Exception:  # whatever a model's own code makes of it
            return None

    def draft(self, size: int) -> Trace | None:
        """Return the step by a few of its blocks, for a first answer; None where it has no equal ones."""
        if size not in self._few:
            self._few[size] = None
            if self.shallow is not None:
                with suppress(Exception):
                    self._few[size] = self._made(self.shallow, size)
        return self._few[size]

    def _made(self, step: Step, size: int) -> Trace:
        from whichdevice.forecast.torch.trace import trace_step

        return trace_step(step, size)

    def _by_few(self, size: int) -> bool:
        """Whether changes of this step are traced on few blocks."""
        full = self._traces.get((size, ()))
        few = None if full is None or self.shallow is None else self.draft(size)
        if full is None or few is None:
            return False
        pairs = [(need(few), need(full)), (few.work.operations, full.work.operations)]
        return all(abs(one - other) <= SAME * other for one, other in pairs)

    def trace(self, size: int, ways: tuple[str, ...] = (), like: int | None = None) -> Trace:
        """The step of so many examples with these of WAYS; by few blocks where a step of `like` examples is that."""
        if (size, ways) not in self._traces:
            ahead = tuple(way for way in ways if way not in AFTERWARDS)
            by_few = (ahead or like is not None) and self._by_few(like or size)
            step = self.shallow if by_few and self.shallow is not None else self.step
            for way in ahead:
                step = WAYS[way](step)
            trace = self._kept(step, size, ahead) if ahead == ways else self.trace(size, ahead, like)
            for way in ways[len(ahead) :]:
                trace = AFTERWARDS[way](trace)
            if self._copies is not None:
                trace = replace(trace, memory={**trace.memory, **self._copies(size, QLORA in ways)})
            self._traces[size, ways] = trace
        return self._traces[size, ways]

    def _kept(self, step: Step, size: int, ways: tuple[str, ...]) -> Trace:
        path = None if self.folder is None else self.folder / f"{', '.join([str(size), *ways])}.json"
        if path is not None and path.is_file():
            with suppress(OSError, ValueError, KeyError, TypeError, StudyError):  # one that cannot be read is made anew
                return Trace.from_dict(json.loads(path.read_text(encoding="utf-8")))
        trace = self._made(step, size)
        if path is not None:
            with suppress(OSError):  # a folder that cannot be written costs the next call its time
                write_atomically(json.dumps(trace.digest()), path)
        return trace

    def changed(self, size: int, enough: Callable[[Trace], bool]) -> Iterator[tuple[tuple[str, ...], Trace]]:
        """Each change alone, adapters also with checkpointing where needed, then several until it is `enough`."""
        possible: list[str] = []
        reached = self.step.optimizer is None
        for way in () if reached else (*WAYS, *AFTERWARDS):
            try:
                trace = self.trace(size, (way,))
            except Exception:  # nosec B112  # what a model makes of it is the model's
                continue
            if need(trace) < need(self.trace(size)):
                possible.append(way)
                reached = reached or enough(trace)
                yield (way,), trace
                if LIGHT in possible and way in (LORA, QLORA) and not enough(trace):
                    both = self.trace(size, (LIGHT, way))
                    if enough(both):
                        reached = True
                        yield (way, LIGHT), both
        if QLORA in possible:  # which is LoRA on weights of fewer bits
            possible = [way for way in possible if way not in (HALF, LORA)]
        for count in range(2, len(possible) + 1):
            if not reached:
                trace = self.trace(size, tuple(possible[-count:]))
                reached = enough(trace)
                yield tuple(possible[-count:]), trace


def shallow(step: Step) -> Step | None:
    """Return the step with as many of its equal blocks as are asked for; None where these are few, or not its only.

    Raises StudyError where the same module comes each time.
    """
    from torch import nn

    from whichdevice.forecast.torch.trace import FEW_LAYERS, built
    from whichdevice.models.script.torch_fakes import Fakes

    if step.layers is not None:
        return None
    full = built(step, Fakes())
    _, blocks = blocks_of(full)
    if len(blocks) <= 2 * FEW_LAYERS[1] or len({*map(_sizes, blocks)}) > 1:
        return None

    def build(layers: int = len(blocks)) -> Any:
        module = step.build()
        owner, _ = blocks_of(module)
        if module is full or not isinstance(owner, nn.ModuleList | nn.Sequential) or len(owner) != len(blocks):
            raise StudyError("the blocks of this model cannot be left out")
        del owner[layers:]
        return module

    return replace(step, build=build, layers=len(blocks))


def _sizes(block: Any) -> str:
    """Return what a block is made of: its layers with their settings, and its weights' sizes."""
    return f"{block} {[(name, tuple(parameter.shape)) for name, parameter in block.named_parameters()]}"


def checkpointed(step: Step) -> Step:
    """Return the step with gradient checkpointing: the model's own, or of the blocks that it repeats."""

    def build(*layers: int) -> Any:
        module = step.build(*layers)
        checkpoint_blocks(module)
        return module

    return replace(step, build=build)


def checkpoint_blocks(module: Any) -> None:
    """Let a module's repeated blocks compute their activations again in the backward pass; by its own means if any."""
    own = next((part for part in module.modules() if hasattr(part, "gradient_checkpointing_enable")), None)
    if own is not None:  # of Hugging Face
        own.gradient_checkpointing_enable({"use_reentrant": False})
    elif hasattr(module, "set_grad_checkpointing"):  # of timm
        module.set_grad_checkpointing()
    else:
        from torch.utils.checkpoint import checkpoint

        for block in blocks_of(module)[1]:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def blocks_of(module: Any) -> tuple[Any, list[Any]]:
    """The children of one class in one container that have the most weights, after it; none where none repeats."""
    groups: dict[tuple[int, type], tuple[Any, list[Any]]] = {}
    for owner in module.modules():
        for child in owner.children():
            groups.setdefault((id(owner), type(child)), (owner, []))[1].append(child)

    def weights(group: tuple[Any, list[Any]]) -> int:
        return sum(weight.numel() for block in group[1] for weight in block.parameters())

    return max((group for group in groups.values() if len(group[1]) >= LIKE), key=weights, default=(None, []))


def adapted(step: Step, method: str) -> Step:
    """Return the step with LoRA beside frozen weights in 16 or 4 bits; all linear layers of the model are trained."""
    from whichdevice.models.lora import optimizer_for, tuned

    tuning = Tuning(method)

    def build(*layers: int) -> Any:
        module = step.build(*layers)
        if hasattr(module, "adapted") and module.trains_all:
            return module.adapted(tuning)
        if not all(parameter.requires_grad for parameter in module.parameters()) or not hasattr(module, "config"):
            raise StudyError("LoRA is for a whole model of Hugging Face")
        return tuned(module, tuning, "LoRA")

    return in_bfloat16(replace(step, build=build, optimizer=partial(optimizer_for, tuning=tuning)))


def in_bfloat16(step: Step) -> Step:
    """Return the step with all of its floats in bfloat16: weights, and examples."""
    import torch
    from torch.utils._pytree import tree_map_only

    def half(tensor: Any) -> Any:
        return tensor.bfloat16() if tensor.is_floating_point() else tensor

    def batch(size: int) -> Any:
        return tree_map_only(torch.Tensor, half, step.batch(size))

    return replace(step, batch=batch, precision="bfloat16")


def updated(trace: Trace, share: float = 1.0) -> Trace:
    """Return the step with an optimiser that updates in place in one pass and keeps `share` of its state's bytes."""
    memory, state = dict(trace.memory), share * trace.memory["optimizer"]
    passes, gradients = memory["passes"] - memory["optimizer"] + state, memory["gradients"]
    peak = max(passes, memory["weights"] + gradients + state)
    memory |= {"optimizer": state, "passes": passes, "update": 0.0, "peak": peak}
    update = Item("optimizer", "float32", 0.0, 3 * gradients + 2 * state, 1)  # weights and state are read and written
    work, fused = (
        replace(part, items=(*(item for item in part.items if item.kind != "optimizer"), update))
        for part in (trace.work, trace.fused)
    )
    return replace(trace, work=work, fused=fused, memory=memory)


# What can be changed in a training step, by the words that name it: before it is traced, or in its trace.
HALF, LIGHT = "16-bit weights", "gradient checkpointing"
FUSED = "a fused optimiser (fused=True)"
LORA, QLORA = "LoRA", "QLoRA (4-bit weights)"
WAYS: dict[str, Callable[[Step], Step]] = {
    HALF: in_bfloat16,
    LIGHT: checkpointed,
    LORA: partial(adapted, method="lora"),
    QLORA: partial(adapted, method="qlora"),
}
AFTERWARDS: dict[str, Callable[[Trace], Trace]] = {
    FUSED: updated,
    "an 8-bit optimiser": partial(updated, share=EIGHT_BIT),
}
