"""Steps of a PyTorch script: as it was recorded, and in other conditions by running it again.

    plan = Recordings(address, found, "mixed_bfloat16")
    plan.trace(32), plan.trace(32, ("gradient checkpointing",))

A batch that GPUs share is recorded in a run on so many. Any other one lies on the line through two, which a run
records: the script's own and one with half of its loader's.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.forecast.torch.memory import AFTERWARDS, HALF, LIGHT, Plan
from whichdevice.forecast.torch.several import peak
from whichdevice.forecast.torch.step import LASTING, Step, Trace, forward_of, trace_between
from whichdevice.forecast.work import Item, Work
from whichdevice.models.address import Address
from whichdevice.models.script.found import Found
from whichdevice.models.script.look import recording

NO_OTHER = "its batch is not its loader's alone: give another one by the script's own arguments, after --"
NOT_OF_SCRIPT = "this change is not tried in a script"


class Recordings(Plan):
    """The recorded steps of a script by their batch size and by what is changed, each recorded once."""

    shallow = None  # a script's blocks are recorded whole

    def __init__(self, address: Address, found: Found, precision: str, mode: str = "train") -> None:
        step = Step(_none, _none, _none, _none, "float32")  # of its weights, whichever format its products have
        super().__init__(step)
        self._address, self._found, self._predicts, self._own = address, found, mode == "predict", dict[str, Any]()
        if (mixed := precision.startswith("mixed")) != (found.precision == "mixed"):  # it is not the script's own
            self._own["precision"] = "mixed" if mixed else "float32"

    @property
    def takes_bfloat16(self) -> bool:
        """Whether the script itself multiplies in bfloat16."""
        return not self._own and bool(recording(self._address)[1].get("takes_bfloat16"))

    @property
    def shares_weights(self) -> bool:
        """Whether the script's GPUs share its weights out."""
        return bool(recording(self._address)[1].get("shares_weights"))

    def trace(self, size: int, ways: tuple[str, ...] = (), like: int | None = None) -> Trace:
        """Return the step of so many examples on one GPU; raises StudyError where the script fails so."""
        if (size, ways) not in self._traces:
            trace = self._recorded(size)
            if self._predicts:
                trace = forward_of(trace)
            for way in ways:
                if way not in CHANGES:
                    raise StudyError(NOT_OF_SCRIPT)
                trace = CHANGES[way](trace)
            self._traces[size, ways] = trace
        return self._traces[size, ways]

    def _recorded(self, size: int) -> Trace:
        found, record = recording(self._address, **self._own)
        whole, trace = found.batch_size, Trace.from_dict(record["trace"])
        if size == whole:
            return trace
        if self._found.keeps == "batch" and record["counts_gpus"] and whole % size == 0:
            shared, of_part = recording(self._address, **self._own, gpus=whole // size * self._found.conditions.gpus)
            if shared.batch_size == size:
                return Trace.from_dict(of_part["trace"])
        if record["other"] is None:
            raise StudyError(f"{self._address.label}: {NO_OTHER}")
        examples, digest = record["other"]
        return trace_between((whole, trace), (examples, Trace.from_dict(digest)), size)


def checkpointed(trace: Trace) -> Trace:
    """Return a step whose repeated blocks run forward again in its backward pass, and keep what they are given."""
    if (blocks := trace.blocks) is None:
        return trace
    memory = dict(trace.memory) | {"early": blocks.early, "late": blocks.late}
    memory["activations"] -= blocks.kept
    memory["working"] -= blocks.kept - blocks.largest
    work = replace(trace.work, items=(*trace.work.items, *blocks.work.items))
    fused = replace(trace.fused, items=(*trace.fused.items, *_joined(blocks.work, trace)))
    return replace(trace, work=work, fused=fused, memory=_whole(memory), blocks=None)


def _joined(work: Work, trace: Trace) -> Iterator[Item]:
    """Yield some kernels of a step as torch.compile joins them: by its part of all of the step's."""
    eager, joined = ([item for item in one.items if not item.operations and item.kind != "optimizer"]
                     for one in (trace.work, trace.fused))  # fmt: skip
    launches = sum(item.count for item in joined) / (sum(item.count for item in eager) or 1.0)
    nbytes = sum(item.bytes * item.count for item in joined) / (sum(item.bytes * item.count for item in eager) or 1.0)
    for item in work.items:
        joins = not item.operations
        yield replace(item, bytes=item.bytes * nbytes / launches, count=item.count * launches) if joins else item


def in_16_bits(trace: Trace) -> Trace:
    """Return a step of float32 weights with weights of 16 bits: all of its floats are, and autocast makes no copies."""
    if not trace.single:
        raise StudyError(NOT_OF_SCRIPT)
    products = [item for item in trace.work.items if item.operations]
    of_half = sum(item.operations * item.count for item in products if item.precision == "half")
    mixed, lasting = 2 * of_half > trace.work.operations, {part: trace.memory[part] / 2 for part in LASTING}
    copies = min(lasting["weights"], trace.memory["activations"])
    fixed = copies + lasting["weights"] + lasting["optimizer"]
    less = {"activations": copies, "working": copies, "early": fixed, "late": fixed + lasting["gradients"]}

    def halved(part: str, nbytes: float) -> float:
        return nbytes - less[part] if mixed and part in less else nbytes / 2

    memory = {part: halved(part, nbytes) for part, nbytes in trace.memory.items()}
    if (blocks := trace.blocks) is not None:
        early, late = halved("early", blocks.early), halved("late", blocks.late)
        blocks = replace(blocks, work=_halved(blocks.work), early=early, late=late)
    work, fused = _halved(trace.work), _halved(trace.fused)
    return replace(trace, work=work, fused=fused, memory=_whole(memory), blocks=blocks)


def _halved(work: Work) -> Work:
    """Return kernels on half of their bytes, those that are on 16 bits as they are."""
    return replace(work, items=tuple(
        item if item.precision == "half" else replace(
            item, bytes=item.bytes / 2, precision="half" if item.precision else item.precision)
        for item in work.items
    ))  # fmt: skip


def _whole(memory: dict[str, float]) -> dict[str, float]:
    """Return parts of the memory with their largest sums."""
    memory["passes"] = max(memory["early"], memory["late"])
    return memory | {"peak": peak(memory)}


CHANGES: Mapping[str, Callable[[Trace], Trace]] = {LIGHT: checkpointed, HALF: in_16_bits, **AFTERWARDS}


def _none(*_: Any) -> Any:
    raise StudyError(NOT_OF_SCRIPT)
