"""Bytes that one instruction moves: in HBM (off-chip) and in any memory.

Each operand counts once as read and each result once as written, with three exceptions. An operand of which only
slices or gathered rows are used counts as those; a result that updates an array in place counts as the update;
instructions that only rename (tuples, bitcasts, buffers) move nothing.
"""

from dataclasses import dataclass

from whichdevice.errors import StudyError
from whichdevice.forecast.collectives import made_by
from whichdevice.forecast.hlo import Computation, Instruction, Program
from whichdevice.forecast.shapes import HBM, Shape

FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency", "domain"),
    *("partition-id", "replica-id", "opt-barrier", "optimization-barrier", "while", "conditional", "call"),
}
# Custom calls that name memory or state a fact.
FREE_TARGETS = {"AllocateBuffer", "ConcatBitcast", "AssumeGatherIndicesInBound", "Sharding", "SPMDFullToShardShape"}
SLICES = {"slice", "dynamic-slice", "gather"}
VIEWS = {"bitcast", "reshape", "copy", "transpose", "convert"}


@dataclass(frozen=True)
class Traffic:
    """Bytes: in HBM as numbers, in HBM with the padding of their tiles, and in all memories as numbers."""

    hbm: float = 0.0
    padded: float = 0.0
    everywhere: float = 0.0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.hbm + other.hbm, self.padded + other.padded, self.everywhere + other.everywhere)


def is_free(instruction: Instruction) -> bool:
    """Whether the instruction moves nothing and takes no time of its own."""
    return instruction.opcode in FREE or (
        instruction.opcode == "custom-call" and instruction.attribute("target") in FREE_TARGETS
    )


def traffic_of(instruction: Instruction, computation: Computation, program: Program) -> Traffic:
    """Bytes of one instruction, without those of computations that it runs as such (loops, branches, calls)."""
    if is_free(instruction):
        return Traffic()
    total = Traffic()
    for number, name in enumerate(instruction.operands):
        if name not in instruction.operands[:number]:
            source = computation.operand(instruction, number).shapes
            share = _share_read(instruction, number, computation, program)
            for shape in source:
                total += _moved(shape, share)
    written = made_by(instruction, computation)
    for shape, share in zip(written, _shares_written(instruction, computation, program), strict=False):
        total += _moved(shape, share)
    return total


def _moved(shape: Shape, share: float) -> Traffic:
    off_chip = shape.space == HBM
    return Traffic(
        shape.nbytes * share if off_chip else 0.0,
        shape.padded_nbytes * share if off_chip else 0.0,
        shape.nbytes * share,
    )


def _share(part: float, whole: float) -> float:
    return min(1.0, part / whole) if whole else 1.0


def _size(instruction: Instruction) -> float:
    return sum(shape.nbytes for shape in instruction.shapes)


def _share_read(user: Instruction, number: int, computation: Computation, program: Program) -> float:
    """The share of an operand's bytes that its user reads."""
    operand = computation.operand(user, number)
    if user.opcode == "fusion":
        fused = program.computation(user.called.get("calls", ""))
        if number not in fused.parameters:
            raise StudyError(f"TPU program: {user.name} calls {fused.name} with too many operands")
        return _share_used(fused.parameters[number], fused, program, 0)
    if number == 0 and user.opcode in SLICES:
        return _share(_size(user), _size(operand))
    if number == 0 and user.opcode == "dynamic-update-slice":
        return 0.0
    if number == 0 and user.opcode == "scatter":  # reads and rewrites the rows that it meets
        return _share(_size(computation.operand(user, len(user.operands) - 1)), _size(operand))
    return 1.0


def _share_used(value: Instruction, computation: Computation, program: Program, depth: int) -> float:
    """The share of a value's bytes that a fused computation uses, seen through views and fusions within it."""
    if depth > len(program.computations) * 4 + 64:
        raise StudyError(f"TPU program: {computation.name} calls itself")
    total = 0.0
    for user in computation.users.get(value.name, []):
        if user.opcode in VIEWS and not user.root:
            total += _share_used(user, computation, program, depth + 1)
            continue
        for number, name in enumerate(user.operands):
            if name != value.name:
                continue
            if user.opcode == "fusion":
                inner = program.computation(user.called.get("calls", ""))
                if number in inner.parameters:
                    total += _share_used(inner.parameters[number], inner, program, depth + 1)
            else:
                total += _share_read(user, number, computation, program)
        if total >= 1.0:
            return 1.0
    return 1.0 if value.root else total


def _shares_written(instruction: Instruction, computation: Computation, program: Program) -> list[float]:
    """The share of each result's bytes that is written."""
    if instruction.opcode == "fusion":
        fused = program.computation(instruction.called.get("calls", ""))
        root = fused.root
        results = (
            [fused.operand(root, place) for place in range(len(root.operands))] if root.opcode == "tuple" else [root]
        )
        return [_share_written(result, fused, program, 0) for result in results]
    return [_share_written(instruction, computation, program, 0)] * len(instruction.shapes)


def _share_written(result: Instruction, computation: Computation, program: Program, depth: int) -> float:
    if depth > 64:
        return 1.0
    if result.opcode == "bitcast" and result.operands:
        return _share_written(computation.operand(result, 0), computation, program, depth + 1)
    if result.opcode == "fusion":
        inner = program.computation(result.called.get("calls", ""))
        if inner.root.opcode != "tuple":
            return _share_written(inner.root, inner, program, depth + 1)
    if result.opcode == "dynamic-update-slice":
        return _share(_size(computation.operand(result, 1)), _size(result))
    if result.opcode == "scatter":
        return _share(_size(computation.operand(result, len(result.operands) - 1)), _size(result))
    return 1.0
