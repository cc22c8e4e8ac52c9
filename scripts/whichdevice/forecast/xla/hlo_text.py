"""Read the scheduled program that XLA prints (HLO text) for a GPU: computations, instructions, shapes.

An array is written as `bf16[128,512]{1,0:S(5)}`: type, sizes, order of the dimensions from minor to major, and memory
space S. No S is the device's memory (HBM), 5 the host's. Whatever the text holds, the outcome is a Program or a
StudyError.

The text does not always state how often a `while` runs. Its condition and the integer counters that it depends on are
then followed from their constant start, step by step; whatever needs data at run time makes the count unknown (None).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from whichdevice.base.errors import StudyError

HEADER = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
ASSIGNMENT = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = ")
OPCODE = re.compile(r" ?([a-z][\w\-]*)\(")
BRACKET = re.compile(r"[()]")
CALLED = re.compile(r"\b(calls|body|condition|to_apply|select|scatter|true_computation|false_computation)=%?([\w.\-]+)")
# What a reader of a garbled text runs into.
MALFORMED = (KeyError, IndexError, ValueError, ArithmeticError, AttributeError, RecursionError)
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
WRAPPED = re.compile(r'\n(?="|\}\})')  # the attributes of a Pallas kernel go over several lines
# Bits of one element. A type that is missing here is an error: its bytes would be counted wrongly.
BITS = {
    **dict.fromkeys(("token", "opaque"), 0),
    **dict.fromkeys(("s2", "u2"), 2),
    **dict.fromkeys(("s4", "u4", "f4e2m1fn"), 4),
    **dict.fromkeys(("pred", "s8", "u8", "f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz", "f8e8m0fnu"), 8),
    **dict.fromkeys(("bf16", "f16", "s16", "u16"), 16),
    **dict.fromkeys(("f32", "s32", "u32"), 32),
    **dict.fromkeys(("f64", "s64", "u64", "c64"), 64),
    "c128": 128,
}
HBM = 0  # memory space of everything that is marked with no other
LEAF = re.compile(r"([a-z][a-z0-9]*)\[([\d,<= ]*)\](?:\{([^{}]*)\})?")
MOST_TRIPS = 200_000
DEPTH = 200
MOST_VALUES = 2_000_000  # worked out for one loop, some seconds; a value that is used twice is worked out twice
MAX_COUNTER = 2**63  # of a counter
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
MOVED = {"copy", "bitcast", "convert", "reshape", "broadcast"}


@dataclass(frozen=True)
class Shape:
    """One array: element type, sizes, and the memory where it lies."""

    dtype: str
    dims: tuple[int, ...]
    space: int = HBM

    @property
    def nbytes(self) -> float:
        """Bytes of the numbers themselves."""
        return prod(self.dims) * BITS[self.dtype] / 8


def shapes_in(text: str) -> tuple[Shape, ...]:
    """Every array that a type names, a tuple's in order; raises StudyError on an unknown element type."""
    return tuple(_shape(*leaf.groups()) for leaf in LEAF.finditer(text))


def _shape(dtype: str, dims: str, layout: str | None) -> Shape:
    if dtype not in BITS:
        raise StudyError(f"compiled program: unknown element type {dtype}")
    space = re.search(r"S\((\d+)\)", layout or "")
    return Shape(dtype, tuple(map(int, re.findall(r"\d+", dims))), int(space[1]) if space else HBM)


@dataclass(frozen=True)
class Instruction:
    """One line of a computation. `shapes` are the result's arrays, a tuple's in order."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    literal: str  # between the brackets: operands, a constant's value or a parameter's number
    attributes: str  # without quoted text
    config: str  # backend_config, JSON
    root: bool

    @cached_property
    def called(self) -> dict[str, str]:
        """Computations by role: calls, body, condition, to_apply, branch 0, branch 1 ..."""
        roles = dict(CALLED.findall(self.attributes))
        if branches := BRANCHES.search(self.attributes):
            names = branches[1].replace("%", "").replace(" ", "").split(",")
            roles.update({f"branch {number}": name for number, name in enumerate(names)})
        for number, role in enumerate(("true_computation", "false_computation")):
            if self.opcode == "conditional" and role in roles:
                roles[f"branch {number}"] = roles.pop(role)
        return roles

    def attribute(self, name: str) -> str:
        """The value of one attribute, with braces if it has any, or an empty string."""
        value = re.search(rf"(?:^|[ ,]){name}=(\{{[^}}]*\}}|[^ ,]+)", self.attributes)
        return value[1] if value else ""


@dataclass
class Computation:
    """Instructions in the order in which they run."""

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)
    users: dict[str, list[Instruction]] = field(default_factory=dict)

    @cached_property
    def root(self) -> Instruction:
        """The instruction whose result the computation returns."""
        for instruction in self.instructions.values():
            if instruction.root:
                return instruction
        raise StudyError(f"compiled program: computation {self.name} returns nothing")

    @cached_property
    def parameters(self) -> dict[int, Instruction]:
        """Parameters by number."""
        declared = (parameter for parameter in self.instructions.values() if parameter.opcode == "parameter")
        return {int(parameter.literal): parameter for parameter in declared}

    def operand(self, instruction: Instruction, number: int) -> Instruction:
        """The instruction that makes an operand."""
        try:
            return self.instructions[instruction.operands[number]]
        except (KeyError, IndexError):
            raise StudyError(f"compiled program: {instruction.name} lacks operand {number}") from None


@dataclass(frozen=True)
class Program:
    """A whole scheduled program of one device."""

    computations: dict[str, Computation]
    entry: Computation
    partitions: int

    def computation(self, name: str) -> Computation:
        """A computation that an instruction calls."""
        try:
            return self.computations[name]
        except KeyError:
            raise StudyError(f"compiled program: no computation {name}") from None


def parse_program(text: str) -> Program:
    """Read a scheduled program; raises StudyError on anything that is none."""
    if not text.startswith("HloModule") or "is_scheduled=true" not in text.partition("\n")[0]:
        raise StudyError("compiled program: not the text of a scheduled HLO module")
    partitions = re.search(r"num_partitions=(\d+)", text.partition("\n")[0])
    computations: dict[str, Computation] = {}
    entry = current = None
    for line in WRAPPED.sub("", text).splitlines():
        if current is None:
            if header := HEADER.match(line):
                current = computations[header[2]] = Computation(header[2])
                entry = current if header[1] else entry
        elif line.startswith("}"):
            current = None
        elif assignment := ASSIGNMENT.match(line):
            _add(current, _instruction(assignment, line))
        elif line.strip():
            raise StudyError(f"compiled program: cannot read the line {line.strip()[:60]!r}")
    if entry is None or current is not None:
        raise StudyError("compiled program: cut off, it has no complete entry computation")
    return Program(computations, entry, int(partitions[1]) if partitions else 1)


def _add(computation: Computation, instruction: Instruction) -> None:
    computation.instructions[instruction.name] = instruction
    for operand in dict.fromkeys(instruction.operands):
        computation.users.setdefault(operand, []).append(instruction)


def _instruction(assignment: re.Match[str], line: str) -> Instruction:
    rest = line[assignment.end() :]
    leaf = LEAF.match(rest)
    end = _closing(rest, 0) if rest.startswith("(") else (leaf.end() if leaf else 0)
    opcode = OPCODE.match(rest, end)
    if end == 0 or opcode is None:
        raise StudyError(f"compiled program: cannot read the line of {assignment[2]}")
    close = _closing(rest, opcode.end() - 1)
    literal = rest[opcode.end() : close - 1]
    attributes, _, config = rest[close:].partition(", backend_config=")
    return Instruction(
        name=assignment[2],
        opcode=opcode[1],
        shapes=shapes_in(rest[:end]),
        operands=() if opcode[1] in ("constant", "parameter") else tuple(re.findall(r"%([\w.\-]+)", literal)),
        literal=literal.strip(),
        attributes=re.sub(r'"[^"]*"', '""', attributes) + _target(attributes),
        config=config,
        root=assignment[1] is not None,
    )


def _target(attributes: str) -> str:
    """A custom call's target is the one quoted text that matters."""
    target = re.search(r'custom_call_target="([\w.\-$]*)"', attributes)
    return f", target={target[1]}" if target else ""


def _closing(text: str, start: int) -> int:
    """The place behind the bracket that closes the one at `start`."""
    depth = 0
    for bracket in BRACKET.finditer(text, start):
        depth += 1 if bracket[0] == "(" else -1
        if depth == 0:
            return bracket.end()
    raise StudyError(f"compiled program: unbalanced brackets in {text[:60]!r}")


class UnknownError(Exception):
    """The value depends on data, or takes too long to find."""


@dataclass
class _Search:
    """A look-up of the values of one loop, and how many more may be worked out."""

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
    if what.opcode in MOVED and what.shapes[0].dims in ((), (1,)):
        return operand(0)
    if what.opcode in BINARY:
        value = BINARY[what.opcode](operand(0), operand(1))
        if abs(value) >= MAX_COUNTER:  # squared in each trip, it would fill the memory
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
