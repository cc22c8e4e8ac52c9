"""A step of PyTorch as plain data: what is traced or recorded of it. This module needs no PyTorch.

    trace = Trace.from_dict(json.loads(text))
    trace.work, trace.memory["peak"], trace.parameters
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from whichdevice.forecast.work import Kind, Precision, Untested, Work

Part = Literal["weights", "gradients", "optimizer", "other"]
PARTS: tuple[Part, ...] = ("weights", "gradients", "optimizer", "other")  # of live memory
LASTING: tuple[Part, ...] = ("weights", "gradients", "optimizer")
MANY, TINY_BYTES, TINY_OPERATIONS = 200, 1e6, 3e8  # kernels that are launched for longer than they run, on average


@dataclass(frozen=True)
class Step:
    """A step to trace. All four functions are called on fake tensors.

    `build()` makes the module, `build(n)` one of n layers where it has `layers` equal ones; `batch(n)` inputs and
    targets of n examples, `loss(module, batch)` the loss (a scalar) or, in a step without optimiser, any output;
    `optimizer(module)` one of torch.optim. `precision` is a number format of whichdevice: float32, tf32, bfloat16,
    mixed_bfloat16 or mixed_float16.
    """

    build: Callable[..., Any]
    batch: Callable[[int], Any]
    loss: Callable[[Any, Any], Any]
    optimizer: Callable[[Any], Any] | None = None
    precision: str = "float32"
    layers: int | None = None


@dataclass(frozen=True)
class Blocks:
    """The forward passes of the blocks that a script's module repeats, which checkpointing runs again."""

    work: Work
    kept: float  # bytes that they keep for the backward pass beside what each is given and gives
    largest: float  # the most of one block
    early: float  # the most bytes in the passes of the step where a block at a time keeps them, as of `memory`
    late: float

    @classmethod
    def from_dict(cls, digest: Mapping[str, Any]) -> Self:
        """Read what `Trace.digest` wrote."""
        return cls(**dict(digest) | {"work": Work.from_dict(digest["work"])})


@dataclass(frozen=True)
class Trace:
    """A traced step on one device.

    `memory` is in bytes, each storage rounded up to 512: weights (buffers too), gradients, optimizer (its state),
    activations (kept by the forward pass, with inputs), update (what the optimiser takes for a while), working (the
    most that the passes hold beside weights, whole gradients and the optimiser), passes (the largest sum in forward and
    backward pass: early, until half of the gradients are whole, or late) and peak (the largest of all).
    """

    work: Work
    fused: Work  # the same step by torch.compile
    memory: Mapping[str, float]
    parameters: int
    trained: int
    notes: tuple[str, ...] = ()
    images: bool = False  # whether it convolves images, whose layout in memory matters
    no_tpu: tuple[str, ...] = ()  # what of it has no form on a TPU: float64, operations by their name
    forward: Work | None = None  # what of the work comes before the backward pass, operation by operation
    blocks: Blocks | None = None  # of a script
    single: bool = False  # whether all weights of a script are float32

    def digest(self) -> dict[str, Any]:
        """A form for JSON; `from_dict` reads it back."""
        works = {"work": self.work.digest(), "fused": self.fused.digest()}
        works |= {"forward": self.forward.digest()} if self.forward else {}
        works |= {"blocks": asdict(self.blocks) | {"work": self.blocks.work.digest()}} if self.blocks else {}
        return asdict(self) | works | {"notes": list(self.notes), "no_tpu": list(self.no_tpu)}

    @classmethod
    def from_dict(cls, digest: Mapping[str, Any]) -> Self:
        """Read what `digest` wrote; raises StudyError where its work cannot be read."""
        works = {name: Work.from_dict(digest[name]) for name in ("work", "fused", "forward") if digest.get(name)}
        tuples = {name: tuple(digest.get(name, ())) for name in ("notes", "no_tpu")}
        blocks = {"blocks": Blocks.from_dict(digest["blocks"])} if digest.get("blocks") else {}
        return cls(**dict(digest) | works | tuples | blocks)


def untested(trace: Trace, *kinds: Untested) -> Trace:
    """The trace with marks on its work: no published times of such steps were tested."""
    work, fused = (
        replace(part, untested=tuple(dict.fromkeys((*part.untested, *kinds)))) for part in (trace.work, trace.fused)
    )
    return replace(trace, work=work, fused=fused)


def is_tiny(work: Work) -> bool:
    """Whether a step has so many kernels of so little work each that their launches take its time."""
    count = work.kernels
    return count >= MANY and work.bytes < TINY_BYTES * count and work.operations < TINY_OPERATIONS * count


def forward_of(trace: Trace) -> Trace:
    """Return the forward passes of a step alone, with what they keep for gradients."""
    assert trace.forward is not None
    weights, kept = trace.memory["weights"], trace.memory["activations"]
    memory = dict.fromkeys(trace.memory, 0.0) | {"weights": weights, "activations": kept, "working": kept}
    memory |= dict.fromkeys(("early", "passes", "peak"), weights + kept)
    return replace(trace, work=trace.forward, fused=trace.forward, memory=memory)


def trace_between(first: tuple[int, Trace], second: tuple[int, Trace], size: int) -> Trace:
    """Return the trace of another batch, on the line through two: kernels, operations, bytes and memory are linear."""
    (small, below), (large, above) = sorted((first, second), key=lambda pair: pair[0])
    place = (size - small) / (large - small)

    def line(start: float, end: float) -> float:
        return max(0.0, start + (end - start) * place)

    def between(start: Work, end: Work) -> Work:
        sums = [_sums(work) for work in (start, end)]
        items = []
        for item in end.items:
            of_start, of_end = (group.get((item.kind, item.precision), (0.0, 0.0, 0.0)) for group in sums)
            *sums_of, kernels = (line(a, b) / b if b else 1.0 for a, b in zip(of_start, of_end, strict=True))
            operations, nbytes = (ratio / (kernels or 1.0) for ratio in sums_of)
            items.append(replace(
                item, operations=item.operations * operations, bytes=item.bytes * nbytes, count=item.count * kernels
            ))  # fmt: skip
        return replace(end, items=tuple(items))

    memory = {name: line(below.memory[name], nbytes) for name, nbytes in above.memory.items()}
    memory["passes"] = max(memory["early"], memory["late"])
    memory["peak"] = max(memory["passes"], sum(memory[part] for part in (*LASTING, "update")))
    forward = between(below.forward, above.forward) if below.forward and above.forward else None
    works, blocks = (between(below.work, above.work), between(below.fused, above.fused)), None
    if (start := below.blocks) and (end := above.blocks):
        numbers = [line(getattr(start, name), getattr(end, name)) for name in ("kept", "largest", "early", "late")]
        blocks = Blocks(between(start.work, end.work), *numbers)
    return replace(above, work=works[0], fused=works[1], forward=forward, memory=memory, blocks=blocks)


def _sums(work: Work) -> dict[tuple[Kind, Precision], tuple[float, float, float]]:
    """Operations, bytes and kernels by kind and number format."""
    sums = dict[tuple[Kind, Precision], tuple[float, float, float]]()
    for item in work.items:
        key = item.kind, item.precision
        before = sums.get(key, (0.0, 0.0, 0.0))
        added = item.operations * item.count, item.bytes * item.count, float(item.count)
        sums[key] = tuple(a + b for a, b in zip(before, added, strict=True))  # type: ignore[assignment]
    return sums
