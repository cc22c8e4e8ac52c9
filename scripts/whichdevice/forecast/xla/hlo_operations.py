"""The work of a compiled program on one device: operations, bytes and kernels, sorted by what binds them.

    work = read_work(compiled.as_text(), "gpu")
    for item in work.items:
        item.kind, item.precision, item.operations, item.bytes, item.count

Reads the scheduled text (HLO) that XLA prints for GPUs and TPUs. What counts:

- *Operations* are of matrix products and convolutions, from the shapes: 2·n·k·m, places on padding left out. A
  fusion holds those of its inside, library calls (cuBLAS, cuDNN) those of their operands.
- *Bytes* are of off-chip memory. Each operand counts once as read and each result once as written, with three
  exceptions: an operand of which only slices or gathered rows are used counts as those; a result that updates an array
  in place counts as the update; what only renames (tuples, bitcasts, buffers) moves nothing.
- A loop counts its body as often as it runs; a loop of unknown length once (`unknown_loops`). Of branches the longest
  counts.
- *Kernels*: each instruction that does something is one.

Whatever the text holds, the outcome is a Work or a StudyError.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, prod
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from whichdevice.errors import StudyError
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

Platform = Literal["gpu", "tpu"]
Kind = Literal[
    "product", "convolution", "grouped convolution", "memory", "gather and scatter", "collective", "transfer"
]
Precision = Literal["", "float32", "tf32", "half"]

PRODUCTS: tuple[Kind, ...] = ("product", "convolution", "grouped convolution")
TYPES = ("default", "high", "highest")  # XLA's operand precisions
LARGEST_WINDOW = 2**24  # window sizes beyond it are nonsense, and would take long to count

FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency", "domain"),
    *("partition-id", "replica-id", "opt-barrier", "optimization-barrier", "while", "conditional", "call"),
}
# Custom calls that name memory or state a fact.
FREE_TARGETS = {"AllocateBuffer", "ConcatBitcast", "AssumeGatherIndicesInBound", "Sharding", "SPMDFullToShardShape"}
SLICES = {"slice", "dynamic-slice", "gather"}
VIEWS = {"bitcast", "reshape", "copy", "transpose", "convert"}
COLLECTIVES = {
    *("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all"),
    *("collective-broadcast", "collective-permute"),
}
TRANSFERS = {"copy-start", "slice-start", "dynamic-slice-start", "dynamic-update-slice-start"}
# Which operand or result of cuDNN's calls is the input, the filter and the output of the convolution; -1 is the result.
CUDNN = {
    "__cudnn$convForward": (0, 1, -1),
    "__cudnn$convBiasActivationForward": (0, 1, -1),
    "__cudnn$convForwardGraph": (0, 1, -1),
    "__cudnn$convBackwardInput": (-1, 1, 0),
    "__cudnn$convBackwardFilter": (0, -1, 1),
}
CUBLAS = ("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8")


@dataclass(frozen=True)
class Item:
    """Work of one kind: `count` kernels of `operations` and `bytes` each, on one device.

    Kernels without products are summed up, as bytes alone bind them: their item has the mean of each. `cycles` is the
    TPU compiler's own estimate (None where it makes none), `devices` the size of a collective's group.
    On a GPU `tf32` means float32 that may be multiplied as TF32 where the device has it; a TPU makes float32 in six
    passes of its bfloat16 units and what is here tf32 (XLA's precision `high`) in three.
    """

    kind: Kind
    precision: Precision
    operations: float
    bytes: float
    count: float
    cycles: float | None = None
    devices: int = 1


@dataclass(frozen=True)
class Work:
    """The work of one run of a program on one device."""

    platform: Platform
    items: tuple[Item, ...]
    unknown_loops: int = 0
    unknown_calls: int = 0  # calls into libraries or own kernels, whose operations cannot be counted

    @property
    def operations(self) -> float:
        """Of all products and convolutions."""
        return sum(item.operations * item.count for item in self.items)

    @property
    def bytes(self) -> float:
        """Of off-chip memory, collectives not counted."""
        return sum(item.bytes * item.count for item in self.items if item.kind != "collective")

    @property
    def kernels(self) -> float:
        """How many kernels run."""
        return sum(item.count for item in self.items)

    @property
    def grouped(self) -> bool:
        """Whether some of its convolutions have groups, as depthwise ones have."""
        return any(item.kind == "grouped convolution" for item in self.items)

    def deepened(self, deeper: "Work", layers: int) -> "Work":
        """The work of `layers` equal layers, from the work of one layer (`self`) and of two (`deeper`)."""
        total = _Total()
        for work, times in ((self, 2 - layers), (deeper, layers - 1)):
            for item in work.items:
                total.put(item, times)
            total.unknown_loops += times * work.unknown_loops
            total.unknown_calls += times * work.unknown_calls
        return total.work(self.platform)

    def divided(self, runs: int) -> "Work":
        """The work of one step of a program that makes `runs` equal steps."""
        items = tuple(
            Item(each.kind, each.precision, each.operations, each.bytes, each.count / runs, each.cycles, each.devices)
            for each in self.items
        )
        return Work(self.platform, items, self.unknown_loops, self.unknown_calls)

    def digest(self) -> dict[str, Any]:
        """A compact form for JSON; `from_dict` reads it back."""
        rows = [
            [each.kind, each.precision, each.operations, each.bytes, each.count, each.cycles, each.devices]
            for each in self.items
        ]
        return {
            "platform": self.platform,
            "items": rows,
            "unknown_loops": self.unknown_loops,
            "unknown_calls": self.unknown_calls,
        }

    @classmethod
    def from_dict(cls, digest: dict[str, Any]) -> Self:
        """Read what `digest` wrote; raises StudyError on anything else."""
        try:
            items = tuple(Item(*row) for row in digest["items"])
            return cls(digest["platform"], items, digest["unknown_loops"], digest["unknown_calls"])
        except (KeyError, TypeError) as error:
            raise StudyError(f"digest of a program: cannot be read ({type(error).__name__})") from None


Key = tuple[Kind, Precision, float, float, float | None, int]  # of equal products: all but how many
Rest = tuple[Kind, Precision, int]  # of kernels that are summed up: kind, precision, devices
Sums = list[float]  # bytes, kernels and cycles


def _key(item: Item) -> Key:
    return item.kind, item.precision, item.operations, item.bytes, item.cycles, item.devices


def _items(platform: Platform, products: Mapping[Key, float], rest: Mapping[Rest, Sums]) -> tuple[Item, ...]:
    """Sums as items, without those that come to nothing."""
    items = [
        Item(kind, precision, operations, nbytes, count, cycles, devices)
        for (kind, precision, operations, nbytes, cycles, devices), count in products.items()
        if count
    ]
    for (kind, precision, devices), (nbytes, count, cycles) in rest.items():
        if count:
            timed = platform == "tpu" and kind not in ("collective", "transfer")
            items.append(Item(kind, precision, 0.0, nbytes / count, count, cycles / count if timed else None, devices))
    return tuple(items)


def read_work(text: str, platform: Platform) -> Work:
    """Read the text of a scheduled program (`compiled.as_text()`); raises StudyError where it makes no sense."""
    return work_of(parse_program(text), platform)


def work_of(program: Program, platform: Platform) -> Work:
    """The work of one run of a program; raises StudyError where it makes no sense."""
    try:
        total = _Reader(program, platform).run(program.entry, {}, ())
    except MALFORMED as error:
        raise StudyError(f"compiled program: makes no sense ({type(error).__name__})") from error
    return total.work(platform)


@dataclass
class _Total:
    """Sums while a program is read: counts of equal products, and sums of the rest."""

    products: defaultdict[Key, float] = field(default_factory=lambda: defaultdict(float))
    rest: defaultdict[Rest, Sums] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0, 0.0]))
    unknown_loops: int = 0
    unknown_calls: int = 0

    def put(self, item: Item, times: int = 1) -> None:
        """Add an item, so many times."""
        if item.kind in PRODUCTS:
            self.products[_key(item)] += item.count * times
            return
        sums = self.rest[(item.kind, item.precision, item.devices)]
        for place, value in enumerate((item.bytes, 1.0, item.cycles or 0.0)):
            sums[place] += value * item.count * times

    def add(self, other: "_Total", times: int = 1) -> None:
        """Add another one, run so many times."""
        for key, count in other.products.items():
            self.products[key] += count * times
        for kind, sums in other.rest.items():
            self.rest[kind] = [a + b * times for a, b in zip(self.rest[kind], sums, strict=True)]
        self.unknown_loops += other.unknown_loops
        self.unknown_calls += other.unknown_calls

    @property
    def weight(self) -> float:
        """What the longest of several branches is found by: bytes, and operations as if a byte took a hundred."""
        products = sum((key[2] / 100 + key[3]) * count for key, count in self.products.items())
        return products + sum(sums[0] for sums in self.rest.values())

    def work(self, platform: Platform) -> Work:
        """The sums as a Work."""
        items = _items(platform, self.products, self.rest)
        return Work(platform, items, self.unknown_loops, self.unknown_calls)


class _Reader:
    """Walks a program along its calls."""

    def __init__(self, program: Program, platform: Platform) -> None:
        self._program, self._platform = program, platform

    def run(self, computation: Computation, known: Known, above: tuple[str, ...]) -> _Total:
        """One run of a computation; `above` names those that led here."""
        if computation.name in above:
            raise StudyError(f"compiled program: {computation.name} calls itself")
        above = (*above, computation.name)
        total = _Total()
        for instruction in computation.instructions.values():
            if instruction.opcode == "while":
                self._loop(total, instruction, computation, known, above)
            elif instruction.opcode == "conditional":
                names = [name for role, name in instruction.called.items() if role.startswith("branch")]
                runs = [self.run(self._program.computation(name), {}, above) for name in names]
                total.add(max(runs, key=lambda each: each.weight, default=_Total()))
            elif instruction.opcode in ("call", "async-start"):
                name = instruction.called.get("to_apply") or instruction.called.get("calls", "")
                total.add(self.run(self._program.computation(name), {}, above))
            elif not (is_free(instruction) or instruction.opcode.endswith(("-done", "-update"))):
                self._plain(total, instruction, computation)
        return total

    def _loop(
        self, total: _Total, loop: Instruction, around: Computation, known: Known, above: tuple[str, ...]
    ) -> None:
        trips = trip_count(loop, around, self._program, known)
        inner = constants_of(loop, around, self._program, known)
        body = self.run(self._program.computation(loop.called.get("body", "")), inner, above)
        total.add(body, 1 if trips is None else trips)
        total.unknown_loops += trips is None

    def _plain(self, total: _Total, instruction: Instruction, computation: Computation) -> None:
        kind = collective_kind(instruction)
        if kind:
            devices = _group_size(instruction, self._program.partitions)
            total.put(Item("collective", "", 0.0, collective_bytes(instruction, computation), 1, devices=devices))
        elif instruction.opcode in TRANSFERS:
            total.put(Item("transfer", "", 0.0, _transferred(instruction, computation), 1))
        else:
            products = list(products_of(instruction, computation, self._program, self._platform))
            nbytes = bytes_of(instruction, computation, self._program)
            if products:
                largest = max(products, key=lambda each: each.operations)
                operations = sum(each.operations for each in products)
                total.put(Item(largest.kind, largest.precision, operations, nbytes, 1, instruction.cycles))
            else:
                inside = set(_opcodes(instruction, self._program, 0))
                moved: Kind = "gather and scatter" if inside & {"gather", "scatter", "sort"} else "memory"
                total.put(Item(moved, "", 0.0, nbytes, 1, instruction.cycles))
                total.unknown_calls += instruction.opcode == "custom-call" and not _known_call(instruction)


def _known_call(instruction: Instruction) -> bool:
    target = instruction.attribute("target")
    return target in FREE_TARGETS or target.startswith(("__cub$", "TopK", "cub"))


def _opcodes(instruction: Instruction, program: Program, depth: int) -> Iterator[str]:
    if instruction.opcode != "fusion" or depth > len(program.computations):
        if instruction.attribute("target") != "AssumeGatherIndicesInBound":
            yield instruction.opcode
        return
    for each in program.computation(instruction.called.get("calls", "")).instructions.values():
        yield from _opcodes(each, program, depth + 1)


# --- Products


class Product(NamedTuple):
    """A product or convolution."""

    kind: Kind
    precision: Precision
    operations: float


def products_of(
    instruction: Instruction, computation: Computation, program: Program, platform: Platform, depth: int = 0
) -> Iterator[Product]:
    """All products of one instruction, with the computations that a fusion calls, each once."""
    if instruction.opcode in ("convolution", "dot", "custom-call"):
        found = _product(instruction, computation)
        if found is not None:
            yield _typed(*found, instruction, computation, platform)
    elif instruction.opcode == "fusion":
        if depth > len(program.computations):
            raise StudyError(f"compiled program: {instruction.name} calls itself")
        fused = program.computation(instruction.called.get("calls", ""))
        for each in fused.instructions.values():
            if each.opcode in ("convolution", "dot", "fusion", "custom-call"):
                yield from products_of(each, fused, program, platform, depth + 1)


def _product(instruction: Instruction, computation: Computation) -> tuple[Kind, float] | None:
    target = instruction.attribute("target")
    if instruction.opcode == "dot":
        contracted = re.findall(r"\d+", instruction.attribute("lhs_contracting_dims"))
        return "product", _dot(instruction, computation, contracted)
    if instruction.opcode == "convolution":
        return _convolution(instruction, computation, (0, 1, -1))
    if target in CUBLAS:
        found = re.search(r'"lhs_contracting_dimensions":\[([^\]]*)\]', instruction.config)
        return "product", _dot(instruction, computation, re.findall(r"\d+", found[1]) if found else [])
    if target in CUDNN:
        return _convolution(instruction, computation, CUDNN[target])
    return None


def _typed(
    kind: Kind, operations: float, instruction: Instruction, computation: Computation, platform: Platform
) -> Product:
    asked = [each.lower() for each in re.findall(r"\w+", instruction.attribute("operand_precision"))]
    if not asked and (found := re.search(r'"operand_precision":\[([^\]]*)\]', instruction.config)):
        asked = [each.lower() for each in re.findall(r"\w+", found[1])]
    wanted = max((TYPES.index(each) for each in asked if each in TYPES), default=0)
    if platform == "tpu":  # bfloat16 units make every product, in as many passes as its precision wants
        precisions: tuple[Precision, ...] = ("half", "tf32", "float32")
        return Product("product" if kind == "convolution" else kind, precisions[wanted], operations)
    types = {shape.dtype for number in (0, 1) for shape in computation.operand(instruction, number).shapes}
    if types & {"f32", "f64", "c64", "c128"}:
        exact = TYPES[wanted] == "highest" or "dot_f32_f32_f32" in (instruction.attributes + instruction.config).lower()
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
    found = re.search(r"window=\{([^}]*)\}", instruction.attributes)
    values = dict(part.split("=", 1) for part in found[1].split()) if found else {}

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
    return sum(shape.padded_nbytes for shape in shapes if shape.space == HBM)


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
