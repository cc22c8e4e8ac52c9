"""Trip counts: how often a `while` runs, found by following its integer counters from their constant start.

The scheduled program does not always state trip counts, so the condition and the counters that it depends on are
evaluated, step by step. Whatever needs data at run time makes the count unknown (None).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from whichdevice.forecast.hlo import Computation, Instruction, Program

MOST_TRIPS = 200_000
DEPTH = 200
MOST_VALUES = 2_000_000  # worked out for one loop, some seconds; a value that is used twice is worked out twice
LARGEST = 2**63  # of a counter
Known = Mapping[int, int]  # values of the elements of a loop's tuple that are known constants

BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "minimum": min,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
}
VIEWS = {"copy", "bitcast", "convert", "reshape", "broadcast"}


class UnknownError(Exception):
    """The value depends on data, or takes too long to find."""


@dataclass
class _Search:
    """Where the values of one loop are looked up, and how many more may be worked out."""

    program: Program
    left: int = MOST_VALUES


def trip_count(loop: Instruction, around: Computation, program: Program, known: Known) -> int | None:
    """How often the body of a `while` runs; `known` holds constants of the loop around it."""
    stated = re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.config + loop.attributes)
    if stated:
        return int(stated[1])
    condition = program.computation(loop.called.get("condition", ""))
    body = program.computation(loop.called.get("body", ""))
    search = _Search(program)
    state = _start(loop, around, search, known)
    try:
        for trips in range(MOST_TRIPS):
            if not _value(condition.root, condition, search, state, 0):
                return trips
            state = _next(body, search, state)
    except UnknownError:
        return None
    return None


def constants_of(loop: Instruction, around: Computation, program: Program, known: Known) -> dict[int, int]:
    """Elements of a loop's tuple that start as a known constant and that the body hands on unchanged."""
    body = program.computation(loop.called.get("body", ""))
    start = _start(loop, around, _Search(program), known)
    root = body.root
    if root.opcode != "tuple":
        return {}
    return {place: value for place, value in start.items() if _handed_on(root, place, body)}


def _handed_on(root: Instruction, place: int, body: Computation) -> bool:
    made = body.operand(root, place)
    return made.opcode == "get-tuple-element" and made.attribute("index") == str(place)


def _start(loop: Instruction, around: Computation, search: _Search, known: Known) -> dict[int, int]:
    made = around.operand(loop, 0)
    values: dict[int, int] = {}
    if made.opcode == "tuple":
        for place in range(len(made.operands)):
            try:
                values[place] = _value(around.operand(made, place), around, search, known, 0)
            except UnknownError:
                continue
    return values


def _next(body: Computation, search: _Search, state: Known) -> dict[int, int]:
    """The elements that can be followed, after one more run of the body."""
    root = body.root
    if root.opcode != "tuple":
        raise UnknownError
    values: dict[int, int] = {}
    for place in state:
        try:
            values[place] = _value(body.operand(root, place), body, search, state, 0)
        except UnknownError:
            continue
    return values


def _value(what: Instruction, inside: Computation, search: _Search, known: Known, depth: int) -> int:
    """An integer scalar, with the computation's tuple parameter holding `known`."""
    search.left -= 1
    if depth > DEPTH or search.left < 0:
        raise UnknownError

    def operand(number: int) -> int:
        return _value(inside.operand(what, number), inside, search, known, depth + 1)

    if what.opcode == "constant":
        return _constant(what)
    if what.opcode in VIEWS and what.shapes[0].dims in ((), (1,)):
        return operand(0)
    if what.opcode in BINARY:
        value = BINARY[what.opcode](operand(0), operand(1))
        if abs(value) >= LARGEST:  # squared in each trip, it would fill the memory
            raise UnknownError
        return value
    if what.opcode == "compare":
        return int(COMPARISONS[what.attribute("direction")](operand(0), operand(1)))
    if what.opcode == "select":
        return operand(1) if operand(0) else operand(2)
    if what.opcode == "get-tuple-element":
        place = int(what.attribute("index"))
        if inside.operand(what, 0).opcode == "parameter" and place in known:
            return known[place]
    if what.opcode == "parameter" and int(what.literal) in known:
        return known[int(what.literal)]
    if what.opcode == "fusion":
        return _fused(what, operand, search, depth)
    raise UnknownError


def _fused(what: Instruction, operand: Callable[[int], int], search: _Search, depth: int) -> int:
    fused = search.program.computation(what.called.get("calls", ""))
    values: dict[int, int] = {}
    for number in fused.parameters:
        try:
            values[number] = operand(number)
        except UnknownError:
            continue
    return _value(fused.root, fused, search, values, depth + 1)


def _constant(what: Instruction) -> int:
    if what.literal in ("true", "false"):
        return int(what.literal == "true")
    if re.fullmatch(r"-?\d+", what.literal) is None or what.shapes[0].dtype.startswith(("f", "bf")):
        raise UnknownError
    return int(what.literal)
