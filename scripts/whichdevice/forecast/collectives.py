"""Collectives: who takes part, how many bytes, and the time of a ring over one link in one direction."""

import re
from math import prod

from whichdevice.forecast.hlo import Computation, Instruction
from whichdevice.forecast.shapes import Shape

# Each byte of the larger side crosses the slowest link this often, for n devices in a ring.
RING = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "reduce-scatter": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "ragged-all-to-all": lambda n: (n - 1) / n,
    "collective-broadcast": lambda n: 1.0,
    "collective-permute": lambda n: 1.0,
}


def collective_kind(instruction: Instruction) -> str | None:
    """The kind of collective that this instruction is or starts."""
    kind = instruction.opcode.removesuffix("-start")
    return kind if kind in RING else None


def collective_bytes(instruction: Instruction, computation: Computation) -> float:
    """Bytes of the larger side, operands or results, on one device."""
    names = dict.fromkeys(instruction.operands)
    given = sum(shape.nbytes for name in names for shape in computation.instructions[name].shapes)
    return max(given, sum(shape.nbytes for shape in made_by(instruction, computation)))


def made_by(instruction: Instruction, computation: Computation) -> tuple[Shape, ...]:
    """The arrays that an instruction makes: what starts a collective names its operands first, bookkeeping last.

    `all-reduce-start` names its results alone.
    """
    if collective_kind(instruction) in (None, instruction.opcode, "all-reduce"):
        return instruction.shapes
    given = sum(len(computation.instructions[name].shapes) for name in instruction.operands)
    return instruction.shapes[given : 2 * given]


def group_size(instruction: Instruction, partitions: int) -> int:
    """Devices in one replica group; all of them where the text does not say."""
    text = instruction.attributes
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", text):
        return len(listed[1].split(","))
    if tiled := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", text):
        return int(tiled[2])
    if mesh := re.search(r"replica_groups=\w*\[([^\]]*)\] \{([^}]*)\}", text):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
        return prod(int(sizes.get(axis, 1)) for axis in re.findall(r"'(\w+)'", mesh[2])) or partitions
    return partitions


def ring_seconds(kind: str, nbytes: float, devices: int, link_bandwidth: float) -> float:
    """Seconds of a ring in one direction; link bandwidth in bytes per second. Latency is not counted."""
    return RING[kind](devices) * nbytes / link_bandwidth if devices > 1 else 0.0
