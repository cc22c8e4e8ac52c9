"""Asynchronous transfers between HBM and on-chip memory: what they move, and how long one must wait for them."""

from collections.abc import Iterable

from whichdevice.forecast.collectives import collective_kind
from whichdevice.forecast.hlo import Computation, Instruction
from whichdevice.forecast.shapes import HBM

STARTS = ("copy-start", "slice-start", "dynamic-slice-start", "dynamic-update-slice-start")


def starts_transfer(instruction: Instruction) -> bool:
    """A copy that runs beside what follows it."""
    return instruction.opcode in STARTS


def ends_transfer(instruction: Instruction) -> bool:
    """The place where a copy, or a collective counted at its start, must have ended."""
    return instruction.opcode.endswith("-done") and collective_kind(instruction) is None


def transferred(instruction: Instruction, computation: Computation) -> float:
    """HBM bytes of a transfer: what is moved, once for each side that lies in HBM."""
    source = computation.operand(instruction, 0).shapes[0]
    arrays = [shape for shape in instruction.shapes if shape.dims]
    moved = min((shape.nbytes for shape in arrays), default=0.0)
    target = next((shape for shape in arrays if shape.space != source.space), source)
    return moved * ((source.space == HBM) + (target.space == HBM))


class Queue:
    """Transfers under way, served one after another with the bandwidth that instructions leave idle."""

    def __init__(self) -> None:
        self._waiting: dict[str, float] = {}

    def start(self, name: str, seconds: float) -> None:
        """Add a transfer that would take `seconds` of the whole bandwidth."""
        self._waiting[name] = seconds

    def drain(self, idle: float) -> None:
        """Serve for `idle` seconds."""
        for name in list(self._waiting):
            served = min(self._waiting[name], max(idle, 0.0))
            idle -= served
            self._waiting[name] -= served
            if self._waiting[name] <= 0:
                del self._waiting[name]

    def wait_for(self, names: Iterable[str] | None) -> float:
        """Seconds until these transfers, and those before them, have ended; None means all."""
        order = list(self._waiting)
        wanted = [name for name in names if name in self._waiting] if names is not None else order
        if not wanted:
            return 0.0
        last = max(order.index(name) for name in wanted)
        return sum(self._waiting.pop(name) for name in order[: last + 1])
