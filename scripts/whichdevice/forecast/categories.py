"""What kind of work an instruction is, for the breakdown of the modelled time."""

from collections.abc import Iterator

from whichdevice.forecast.collectives import collective_kind
from whichdevice.forecast.hlo import Instruction, Program

# The first that an instruction, or a fusion's inside, holds.
CATEGORIES = {
    "pooling backward": {"select-and-scatter"},
    "sort": {"sort"},
    "gather and scatter": {"gather", "scatter"},
    "custom calls": {"custom-call"},
    "reductions": {"reduce", "reduce-window"},
}
COPIES = {"copy", "transpose", "reshape", "slice", "pad", "concatenate", "broadcast", "iota", "reverse"}
MOVES = COPIES | {"bitcast", "parameter", "constant", "tuple", "get-tuple-element", "convert"}


def category_of(instruction: Instruction, program: Program, has_products: bool) -> str:
    """One word or two, e.g. `products`, `reductions`, `elementwise`, `copies`, `collectives`."""
    if collective_kind(instruction):
        return "collectives"
    if has_products:
        return "products"
    inside = set(_opcodes(instruction, program, 0))
    for category, opcodes in CATEGORIES.items():
        if inside & opcodes:
            return category
    return "copies" if inside <= MOVES else "elementwise"


def _opcodes(instruction: Instruction, program: Program, depth: int) -> Iterator[str]:
    if instruction.opcode != "fusion" or depth > len(program.computations):
        if instruction.attribute("target") != "AssumeGatherIndicesInBound":
            yield instruction.opcode
        return
    for each in program.computation(instruction.called.get("calls", "")).instructions.values():
        yield from _opcodes(each, program, depth + 1)
