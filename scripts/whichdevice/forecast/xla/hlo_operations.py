"""The work of a compiled program on one device: operations, bytes and kernels, sorted by what binds them.

    work = read_work(compiled.as_text(), "gpu")
    for item in work.items:
        item.kind, item.precision, item.operations, item.bytes, item.count

Reads the scheduled text (HLO) that XLA prints for GPUs. What counts:

- *Operations* are of matrix products and convolutions, from the shapes: 2·n·k·m, places on padding left out. A
  fusion holds those of its inside, library calls (cuBLAS, cuDNN) those of their operands.
- *Bytes* are of off-chip memory. Each operand counts once as read and each result once as written, with three
  exceptions: an operand of which only slices or gathered rows are used counts as those; a result that updates an array
  in place counts as the update; what only renames (tuples, bitcasts, buffers) moves nothing.
- A loop counts its body as often as it runs; a loop of unknown length once (`unknown_loops`). Of branches the longest
  counts. Where `small_loops` is given, kernels of a loop whose body moves no more bytes are of kind `recurrent`.
- *Kernels*: each instruction that does something is one.

Whatever the text holds, the outcome is a Work or a StudyError.
"""

import re
from collections.abc import Iterator, Set
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.forecast.work import Item, Kind, Platform, Precision, Total, Work
from whichdevice.forecast.xla.hlo_text import (
    HBM,
    MALFORMED,
    Computation,
    Instruction,
    Known,
    Program,
    Shape,
    constants_of,
    parse_program,
    trip_count,
)

OPERAND_PRECISIONS = ("default", "high", "highest")  # XLA's operand precisions
LARGEST_WINDOW = 2**24  # window sizes beyond it are nonsense, and would take long to count

FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency", "domain"),
    *("partition-id", "replica-id", "opt-barrier", "optimization-barrier", "while", "conditional", "call"),
}
# Custom calls that state a fact.
FREE_TARGETS = {"Sharding", "SPMDFullToShardShape"}
SLICES = {"slice", "dynamic-slice", "gather"}
VIEWS = {"bitcast", "reshape", "copy", "transpose", "convert"}
COLLECTIVES = {
    *("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all"),
    *("collective-broadcast", "collective-permute"),
}
TRANSFERS = {"copy-start"}
# Which operand or result of cuDNN's calls is the input, the filter and the output of the convolution; -1 is the result.
CUDNN = {
    "__cudnn$convForward": (0, 1, -1),
    "__cudnn$convBiasActivationForward": (0, 1, -1),
    "__cudnn$convForwardGraph": (0, 1, -1),
    "__cudnn$convBackwardInput": (-1, 1, 0),
    "__cudnn$convBackwardFilter": (0, -1, 1),
}
CUBLAS = ("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8")


def read_work(text: str, platform: Platform) -> Work:
    """Read the text of a scheduled program (`compiled.as_text()`); raises StudyError where it makes no sense."""
    return work_of(parse_program(text), platform)


def work_of(
    program: Program, platform: Platform, left_out: Set[int] = frozenset(), small_loops: float | None = None
) -> Work:
    """The work of one run of a program; raises StudyError where it makes no sense."""
    try:
        total = _Reader(program, left_out, small_loops).run(program.entry, {}, ())
    except MALFORMED as error:
        raise StudyError(f"compiled program: makes no sense ({type(error).__name__})") from error
    return total.work(platform)


class _Reader:
    """Walks a program along its calls."""

    def __init__(self, program: Program, left_out: Set[int], small_loops: float | None) -> None:
        self._program, self._left_out, self._small_loops = program, left_out, small_loops

    def run(self, computation: Computation, known: Known, above: tuple[str, ...]) -> Total:
        """One run of a computation; `above` names those that led here."""
        if computation.name in above:
            raise StudyError(f"compiled program: {computation.name} calls itself")
        above = (*above, computation.name)
        total = Total()
        for instruction in computation.instructions.values():
            if instruction.opcode == "while":
                self._loop(total, instruction, computation, known, above)
            elif instruction.opcode == "conditional":
                names = [name for role, name in instruction.called.items() if role.startswith("branch")]
                runs = [self.run(self._program.computation(name), {}, above) for name in names]
                total.add(max(runs, key=lambda run: run.weight, default=Total()))
            elif instruction.opcode in ("call", "async-start"):
                name = instruction.called.get("to_apply") or instruction.called.get("calls", "")
                total.add(self.run(self._program.computation(name), {}, above))
            elif not (is_free(instruction) or instruction.opcode.endswith(("-done", "-update"))):
                self._plain(total, instruction, computation)
        return total

    def _loop(self, total: Total, loop: Instruction, around: Computation, known: Known, above: tuple[str, ...]) -> None:
        trips = trip_count(loop, around, self._program, known)
        if trips in self._left_out:
            return
        inner = constants_of(loop, around, self._program, known)
        body = self.run(self._program.computation(loop.called.get("body", "")), inner, above)
        if self._small_loops is not None and trips is not None and body.bytes <= self._small_loops:
            body = body.recurrent()
        total.add(body, 1 if trips is None else trips)
        total.unknown_loops += trips is None

    def _plain(self, total: Total, instruction: Instruction, computation: Computation) -> None:
        kind = collective_kind(instruction)
        if kind:
            devices = _group_size(instruction, self._program.partitions)
            total.put(Item("collective", "", 0.0, collective_bytes(instruction, computation), 1, devices=devices))
        elif instruction.opcode in TRANSFERS:
            total.put(Item("transfer", "", 0.0, _transferred(instruction, computation), 1))
        else:
            products = list(products_of(instruction, computation, self._program))
            nbytes = bytes_of(instruction, computation, self._program)
            if products:
                largest = max(products, key=lambda product: product.operations)
                operations = sum(product.operations for product in products)
                total.put(Item(largest.kind, largest.precision, operations, nbytes, 1))
            else:
                inside = set(_opcodes(instruction, self._program, 0))
                moved: Kind = "gather and scatter" if inside & {"gather", "scatter", "sort"} else "memory"
                total.put(Item(moved, "", 0.0, nbytes, 1))
                total.unknown_calls += instruction.opcode == "custom-call" and not _known_call(instruction)


def _known_call(instruction: Instruction) -> bool:
    target = instruction.attribute("target")
    return target in FREE_TARGETS or target.startswith(("__cub$", "TopK", "cub"))


def _opcodes(instruction: Instruction, program: Program, depth: int) -> Iterator[str]:
    if instruction.opcode != "fusion" or depth > len(program.computations):
        yield instruction.opcode
        return
    for inner in program.computation(instruction.called.get("calls", "")).instructions.values():
        yield from _opcodes(inner, program, depth + 1)


# --- Products


class Product(NamedTuple):
    """A product or convolution."""

    kind: Kind
    precision: Precision
    operations: float


def products_of(
    instruction: Instruction, computation: Computation, program: Program, depth: int = 0
) -> Iterator[Product]:
    """All products of one instruction, with the computations that a fusion calls, each once."""
    if instruction.opcode in ("convolution", "dot", "custom-call"):
        product = _product(instruction, computation)
        if product is not None:
            yield _typed(*product, instruction, computation)
    elif instruction.opcode == "fusion":
        if depth > len(program.computations):
            raise StudyError(f"compiled program: {instruction.name} calls itself")
        fused = program.computation(instruction.called.get("calls", ""))
        for inner in fused.instructions.values():
            if inner.opcode in ("convolution", "dot", "fusion", "custom-call"):
                yield from products_of(inner, fused, program, depth + 1)


def _product(instruction: Instruction, computation: Computation) -> tuple[Kind, float] | None:
    target = instruction.attribute("target")
    if instruction.opcode == "dot":
        contracted = re.findall(r"\d+", instruction.attribute("lhs_contracting_dims"))
        return "product", _dot(instruction, computation, contracted)
    if instruction.opcode == "convolution":
        return _convolution(instruction, computation, (0, 1, -1))
    if target in CUBLAS:
        dimensions = re.search(r'"lhs_contracting_dimensions":\[([^\]]*)\]', instruction.config)
        return "product", _dot(instruction, computation, re.findall(r"\d+", dimensions[1]) if dimensions else [])
    if target in CUDNN:
        return _convolution(instruction, computation, CUDNN[target])
    return None


def _typed(kind: Kind, operations: float, instruction: Instruction, computation: Computation) -> Product:
    asked = [name.lower() for name in re.findall(r"\w+", instruction.attribute("operand_precision"))]
    if not asked and (configured := re.search(r'"operand_precision":\[([^\]]*)\]', instruction.config)):
        asked = [name.lower() for name in re.findall(r"\w+", configured[1])]
    wanted = max((OPERAND_PRECISIONS.index(name) for name in asked if name in OPERAND_PRECISIONS), default=0)
    types = {shape.dtype for number in (0, 1) for shape in computation.operand(instruction, number).shapes}
    if types & {"f32", "f64", "c64", "c128"}:
        settings = (instruction.attributes + instruction.config).lower()
        exact = OPERAND_PRECISIONS[wanted] == "highest" or "dot_f32_f32_f32" in settings
        return Product(kind, "float32" if exact else "tf32", operations)
    return Product(kind, "half", operations)


def _dot(instruction: Instruction, computation: Computation, contracted: list[str]) -> float:
    left = computation.operand(instruction, 0).shapes[0]
    return 2.0 * prod(instruction.shapes[0].dims) * prod(left.dims[int(axis)] for axis in contracted)


def _convolution(instruction: Instruction, computation: Computation, roles: tuple[int, int, int]) -> tuple[Kind, float]:
    image, kernel, out = (
        instruction.shapes[0].dims if role < 0 else computation.operand(instruction, role).shapes[0].dims
        for role in roles
    )
    labels = re.fullmatch(r"(\w+)_(\w+)->(\w+)", instruction.attribute("dim_labels"))
    if labels is None or len(labels[1]) != len(image) or len(labels[3]) != len(out):
        raise StudyError(f"compiled program: cannot read the dimensions of {instruction.name}")
    groups = int(instruction.attribute("feature_group_count") or 1)
    batches = int(instruction.attribute("batch_group_count") or 1)
    channels = image[labels[1].index("f")] / groups * out[labels[3].index("f")]
    places = 1
    for axis in range(len(image) - 2):
        window = _window(instruction, axis, kernel[labels[2].index(str(axis))])
        places *= _places(image[labels[1].index(str(axis))], out[labels[3].index(str(axis))], window)
    operations = 2.0 * image[labels[1].index("b")] / batches * channels * places
    return "grouped convolution" if groups > 1 or batches > 1 else "convolution", operations


class Window(NamedTuple):
    """A convolution's window along one axis."""

    size: int
    stride: int
    low: int  # padding before the first element
    dilate: int  # distance of the input's elements
    spread: int  # distance of the kernel's elements


def _window(instruction: Instruction, axis: int, size: int = 1) -> Window:
    written = re.search(r"window=\{([^}]*)\}", instruction.attributes)
    values = dict(part.split("=", 1) for part in written[1].split()) if written else {}

    def value(name: str, default: str) -> int:
        return int((values[name].split("x")[axis] if name in values else default).split("_")[0])

    return Window(
        value("size", str(size)),
        value("stride", "1"),
        value("pad", "0"),
        value("lhs_dilate", "1"),
        value("rhs_dilate", "1"),
    )


@lru_cache(maxsize=4096)
def _places(size: int, out: int, window: Window) -> int:
    """Pairs of kernel element and output element that meet a true input element, along one axis.

    Kernel element k of output o reads place o·stride + k·spread − low of the input, which holds a true element at
    each multiple of `dilate` below size·dilate.
    """
    kernel, stride, low, dilate, spread = window
    if not 0 < kernel <= LARGEST_WINDOW or min(size, out, stride, dilate, spread) < 1:
        raise StudyError(f"compiled program: a window of {kernel} over {size} with stride {stride} makes no sense")
    offset = low - np.arange(kernel, dtype=np.int64) * spread  # o·stride must be congruent to it
    common = gcd(stride, dilate)
    period = dilate // common
    inverse = pow(stride // common, -1, period) if period > 1 else 0
    first = (offset // common) * inverse % period if period > 1 else np.zeros_like(offset)
    lowest = np.maximum(0, -(-offset // stride))
    highest = np.minimum(out - 1, (offset + (size - 1) * dilate) // stride)
    start = lowest + (first - lowest) % period
    count = np.where(start <= highest, (highest - start) // period + 1, 0)
    return int(np.where(offset % common == 0, count, 0).sum())


# --- Bytes


def is_free(instruction: Instruction) -> bool:
    """Whether the instruction moves nothing and takes no time."""
    return instruction.opcode in FREE or (
        instruction.opcode == "custom-call" and instruction.attribute("target") in FREE_TARGETS
    )


def bytes_of(instruction: Instruction, computation: Computation, program: Program) -> float:
    """Off-chip bytes of one instruction, without those of computations that it runs as such (loops, branches)."""
    total = 0.0
    for number, name in enumerate(instruction.operands):
        if name not in instruction.operands[:number]:
            share = _share_read(instruction, number, computation, program)
            total += share * _off_chip(computation.operand(instruction, number).shapes)
    written = _made_by(instruction, computation)
    for shape, share in zip(written, _shares_written(instruction, computation, program), strict=False):
        total += share * _off_chip((shape,))
    return total


def _off_chip(shapes: tuple[Shape, ...]) -> float:
    return sum(shape.nbytes for shape in shapes if shape.space == HBM)


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
            raise StudyError(f"compiled program: {user.name} calls {fused.name} with too many operands")
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
        raise StudyError(f"compiled program: {computation.name} calls itself")
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


def _transferred(instruction: Instruction, computation: Computation) -> float:
    """Off-chip bytes of an asynchronous copy: what is moved, once for each side that lies off the chip."""
    source = computation.operand(instruction, 0).shapes[0]
    arrays = [shape for shape in instruction.shapes if shape.dims]
    moved = min((shape.nbytes for shape in arrays), default=0.0)
    target = next((shape for shape in arrays if shape.space != source.space), source)
    return moved * ((source.space == HBM) + (target.space == HBM))


# --- Collectives


def collective_kind(instruction: Instruction) -> str | None:
    """The kind of collective that this instruction is or starts."""
    kind = instruction.opcode.removesuffix("-start")
    return kind if kind in COLLECTIVES else None


def collective_bytes(instruction: Instruction, computation: Computation) -> float:
    """Bytes that one device sends over its slowest link, in a ring over the group."""
    names = dict.fromkeys(instruction.operands)
    given = sum(shape.nbytes for name in names for shape in computation.instructions[name].shapes)
    return max(given, sum(shape.nbytes for shape in _made_by(instruction, computation)))


def _made_by(instruction: Instruction, computation: Computation) -> tuple[Shape, ...]:
    """The arrays that an instruction makes: what starts a collective names its operands first, bookkeeping last.

    `all-reduce-start` names its results alone.
    """
    if instruction.attribute("target") in (*CUBLAS, *CUDNN):
        return instruction.shapes[:1]  # then comes a workspace
    if collective_kind(instruction) in (None, instruction.opcode, "all-reduce"):
        return instruction.shapes
    given = sum(len(computation.instructions[name].shapes) for name in instruction.operands)
    return instruction.shapes[given : 2 * given]


def _group_size(instruction: Instruction, partitions: int) -> int:
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
