"""Kernels and memory of a PyTorch script that runs as it is, from one step of an optimiser to the next.

    recorder = Recorder()
    recorder.hold_as("weights", weight)          # what is on the GPU from the start
    with recorder, AsOnGPU(recorder):
        ...                                       # the script
    trace = trace_of(periods, parameters, trained)

`models/script/watch_torch.py` runs the script. What follows from something on the GPU is there, too; all else belongs
to the host and is not taken down. Where a tensor without values is asked for one it is a one.
"""

import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from whichdevice.forecast.torch.fusion import Fusion
from whichdevice.forecast.torch.step import LASTING, PARTS, Blocks, Part, Trace, is_tiny, untested
from whichdevice.forecast.torch.trace import AsOnGPU, Kernels, rounded
from whichdevice.forecast.work import Item, Kind, Precision, Total, Untested
from whichdevice.models.script.torch_fakes import Fakes, is_fake, storage_of

__all__ = ["AsOnGPU", "Recorder", "Segment", "trace_of"]

MANY_READS = 4  # values that the host reads in a step, as where it matches boxes


@dataclass
class Segment:
    """The work between two ends of backward passes or of optimisers' steps."""

    kernels: Counter[tuple[str, Kind, Precision, float, int]] = field(default_factory=Counter)  # the first is the phase
    fusion: Fusion = field(default_factory=Fusion)
    reads: int = 0  # of values by the host
    early: int = 0  # the most bytes in the passes until half of the gradients are whole
    late: int = 0  # and after that
    besides: int = 0  # the most bytes beside weights, gradients and the optimiser's state
    update: int = 0  # the most bytes while an optimiser steps
    kept: int = 0  # bytes beside weights, gradients and state where a backward pass begins
    gradients: int = 0  # the most bytes of gradients
    whole: int = 0  # gradients that are whole
    rows: int = 0  # of the first tensor that meets one on the GPU, whole numbers before others
    indexes: bool = False  # whether these are whole numbers
    blocks: Counter[Any] = field(default_factory=Counter)  # kernels of the forward passes of repeated blocks
    inside: int = 0  # bytes that these keep beside what each is given and gives
    block: int = 0  # the most of one
    early_block: int = 0  # the most bytes in the passes where one block at a time keeps them, until half of ...
    late_block: int = 0  # ... the gradients are whole, and after that
    live: Mapping[Part, int] = field(default_factory=dict)  # bytes by part at its end
    times: int = 1  # it ran, the last ones without being recorded


class Recorder(Kernels):
    """Takes down kernels and live memory by part; operations whose shapes depend on values find ones."""

    def __init__(self) -> None:
        self.fakes: Fakes  # always
        super().__init__("float32", fakes=Fakes())
        self.stepping = self.backwards = 0  # depth of optimisers' steps, and of backward passes
        self.weights_trained = 1
        self.bytes_of = dict.fromkeys(PARTS, 0)
        self.takes_bfloat16 = False  # whether products do
        self._part = dict[int, Part]()  # by storage
        self._in_block = False  # whether a repeated block's forward pass runs
        self._inside = set[int]()  # storages that such passes made and keep
        self._bytes_inside = self._bytes_before = 0  # of them now, and where the last pass began
        self.segment = Segment()
        self.parts = list[Segment]()  # since the last step

    def end_part(self) -> None:
        """End the part of a batch whose gradients were summed."""
        self.parts.append(replace(self.segment, live=dict(self.bytes_of)))
        self.segment = Segment(whole=self.segment.whole)

    def repeat_part(self) -> None:
        """Let what ran since the last part stand for another one like that."""
        self.parts[-1].times += 1
        self.segment = Segment(whole=self.segment.whole)

    def take(self) -> list[Segment]:
        """Return what ran since the last time, and begin anew."""
        self.end_part()
        parts, self.parts, self.segment = self.parts, [], Segment()
        self._note()
        return parts

    def begin_backward(self) -> None:
        """Note what the forward pass kept."""
        self.backwards += 1
        self.segment.kept = max(self.segment.kept, self.bytes_of["other"])

    def begin_block(self) -> None:
        """Note that a repeated block's forward pass begins."""
        self._in_block, self._bytes_before = torch.is_grad_enabled() and not self.backwards, self._bytes_inside

    def end_block(self, outputs: Sequence[Any]) -> None:
        """Note what a repeated block keeps for the backward pass beside its outputs."""
        if self._in_block:
            for tensor in outputs:
                self._leave_block(storage_of(tensor), rounded(tensor))
            kept = self._bytes_inside - self._bytes_before
            self.segment.inside += kept
            self.segment.block = max(self.segment.block, kept)
        self._in_block = False

    def _leave_block(self, key: int, nbytes: int) -> None:
        if key in self._inside:
            self._inside.remove(key)
            self._bytes_inside -= nbytes

    def gradient_is_whole(self, weight: Any) -> None:
        """Note a weight's gradient, from when it is whole."""
        self.segment.whole += 1
        if weight.grad is not None and weight.grad.layout == torch.strided:
            self.hold_as("gradients", weight.grad)
        self.segment.gradients = max(self.segment.gradients, self.bytes_of["gradients"])

    def note_read(self) -> None:
        """Note that the host reads a value."""
        self.segment.reads += 1

    def apart(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor like this one that belongs to no step."""
        self.resting += 1
        try:
            return self.fakes.like(tensor)
        finally:
            self.resting -= 1

    def _follow(self, inputs: Sequence[Any], outputs: Sequence[Any], mutable: bool) -> set[int]:
        """Hold what was made of something on the GPU, with what it was made of."""
        if any(storage_of(tensor) in self._part for tensor in inputs) or any(map(is_fake, outputs)):
            for tensor in inputs:
                if tensor.dim() and self._is_given(tensor):
                    self.note_given(tensor)
            self.hold(*inputs, *outputs)
        return self._settle(inputs, outputs, mutable)

    def note_given(self, tensor: Any) -> None:
        """Note how long the script's data are where no module is called with them."""
        indexes = not tensor.is_floating_point()
        if not self.segment.rows or (indexes and not self.segment.indexes):
            self.segment.rows, self.segment.indexes = len(tensor), indexes

    def _is_given(self, tensor: Any) -> bool:
        """Return whether a tensor comes from the script's data."""
        return not is_fake(tensor) and storage_of(tensor) not in self._part

    def _put(
        self,
        kind: Kind,
        half: bool,
        operations: float,
        nbytes: int,
        launches: int,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
    ) -> None:
        if (inputs or outputs) and not any(storage_of(tensor) in self._part for tensor in (*inputs, *outputs)):
            return
        phase = "backward" if self.backwards else "forward"
        if self.stepping and not self.backwards and not torch.is_grad_enabled():
            phase = kind = "optimizer"
        full: Precision = "half" if half else "float32"
        if half and operations and inputs:
            self.takes_bfloat16 = self.takes_bfloat16 or inputs[0].dtype == torch.bfloat16
        kernel = phase, kind, full, float(operations), nbytes
        self.segment.kernels[kernel] += launches
        if self._in_block:
            self.segment.blocks[kernel] += launches
        if kind != "optimizer":
            self._join(self.segment.fusion, kind, full, operations, nbytes, launches, inputs, outputs)

    def hold(self, *tensors: Any) -> None:
        """Count the storages of tensors as live until they are freed."""
        with torch._C.DisableTorchFunction():
            for tensor in tensors:
                if (key := storage_of(tensor)) not in self._part:
                    self._part[key], nbytes = "other", rounded(tensor)
                    self.bytes_of["other"] += nbytes
                    if self._in_block:
                        self._inside.add(key)
                        self._bytes_inside += nbytes
                    weakref.finalize(tensor.untyped_storage(), self._drop, key, nbytes)
                    self._note()

    def _note(self) -> None:
        """Note the most bytes that live."""
        segment, total = self.segment, sum(self.bytes_of.values())
        if self.stepping and not self.backwards:
            segment.update = max(segment.update, total)
            return
        by_blocks = total - self._bytes_inside + (segment.block if self.backwards else 0)
        if 2 * segment.whole < self.weights_trained:
            segment.early, segment.early_block = max(segment.early, total), max(segment.early_block, by_blocks)
        else:
            segment.late, segment.late_block = max(segment.late, total), max(segment.late_block, by_blocks)
        segment.besides = max(segment.besides, self.bytes_of["other"])

    def hold_as(self, part: Part, tensor: Any) -> None:
        """Note what a tensor on the GPU is, or turned out to be."""
        self.hold(tensor)
        with torch._C.DisableTorchFunction():
            key, nbytes = storage_of(tensor), rounded(tensor)
        before, self._part[key] = self._part[key], part
        self.bytes_of[before] -= nbytes
        self.bytes_of[part] += nbytes

    def is_held(self, tensor: Any) -> bool:
        """Return whether a tensor is on the GPU."""
        return self._part_of(tensor) is not None

    def is_weight(self, tensor: Any) -> bool:
        """Return whether a tensor is a weight, or a view of one."""
        return self._part_of(tensor) == "weights"

    def _part_of(self, tensor: Any) -> Part | None:
        with torch._C.DisableTorchFunction():
            return self._part.get(storage_of(tensor))

    def _drop(self, key: int, nbytes: int) -> None:
        self.bytes_of[self._part.pop(key)] -= nbytes
        self._leave_block(key, nbytes)
        self.segment.fusion.free(key)


def trace_of(
    periods: Sequence[Sequence[Segment]], recorder: Recorder, parameters: int, trained: int, single: bool
) -> Trace:
    """Return the mean of some periods as the trace of a step; `single`: all weights are float32."""
    totals = {"all": Total(), "forward": Total(), "fused": Total(), "blocks": Total()}
    for segment in (segment for period in periods for segment in period):
        share = segment.times / len(periods)
        for (phase, kind, full, operations, nbytes), count in segment.kernels.items():
            item = Item(kind, full, operations, float(nbytes), count)
            for name in ("all", *(("forward",) if phase == "forward" else ("fused",) if phase == "optimizer" else ())):
                totals[name].put(item, share)
        for item in segment.fusion.items():
            totals["fused"].put(item, share)
        for (_, kind, full, operations, nbytes), count in segment.blocks.items():
            totals["blocks"].put(Item(kind, full, operations, float(nbytes), count), share)
    marks = set[Untested](recorder.untested)
    if sum(segment.reads * segment.times for segment in periods[-1]) >= MANY_READS:
        marks.add("values read by the host")
    work, forward, again = (totals[name].work("gpu", "eager") for name in ("all", "forward", "blocks"))
    kept = [float(max(getattr(segment, name) for period in periods for segment in period))
            for name in ("inside", "block", "early_block", "late_block")]  # fmt: skip
    if is_tiny(work):
        marks.add("hundreds of tiny kernels")
    trace = Trace(
        work, totals["fused"].work("gpu", "torch.compile"), _memory(periods), parameters, trained,
        tuple(sorted(recorder.notes)), recorder.images, tuple(sorted(recorder.no_tpu)), forward,
        Blocks(again, *kept) if kept[0] else None, single,
    )  # fmt: skip
    return untested(trace, *sorted(marks))


def _memory(periods: Sequence[Sequence[Segment]]) -> dict[str, float]:
    """Bytes by part, as a trace has them."""
    segments = [segment for period in periods for segment in period]
    most = {
        name: float(max(getattr(segment, name) for segment in segments)) for name in ("early", "late", "kept", "update")
    }
    memory = {"weights": float(segments[-1].live["weights"]), "optimizer": float(segments[-1].live["optimizer"])}
    memory["gradients"] = float(max(segment.gradients for segment in segments))
    memory |= {"activations": most["kept"], "early": most["early"], "late": most["late"]}
    memory["working"] = float(max(segment.besides for segment in segments))
    memory["passes"] = max(most["early"], most["late"])
    memory["update"] = max(0.0, most["update"] - sum(memory[part] for part in LASTING))
    memory["peak"] = max(memory["passes"], sum(memory[part] for part in (*LASTING, "update")))
    return memory
