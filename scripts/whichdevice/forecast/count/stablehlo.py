"""Count a step of JAX, Keras or TensorFlow from its program before any compiler: StableHLO, by jaxlib's MLIR bindings.

    counted = count_program(jax.jit(step, donate_argnums=0).trace(*arguments).lower(lowering_platforms=("cuda",)))
    counted.total().work("gpu")     # kernels, by the rule of fusion.py
    counted.arguments, counted.results, counted.temporary     # bytes

- Operations are counted of matrix products and convolutions: two for each pair of numbers that both exist. Padding and
  the gaps of a convolution's gradient have none.
- Views (reshape, transpose, broadcast, slice, pad) move nothing: who reads one reads what lies below it.
- A loop is its body as often as it runs; one whose length the program does not state counts once. Of branches the one
  with most work counts.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from whichdevice.base.errors import StudyError
from whichdevice.forecast.count.fusion import Counted, Level, Operation, Read
from whichdevice.forecast.work import Kind, Precision

VIEWS = {
    *("reshape", "transpose", "broadcast_in_dim", "broadcast", "slice", "dynamic_slice", "real_dynamic_slice", "pad"),
    *("reverse", "bitcast_convert", "optimization_barrier", "get_tuple_element", "tuple", "dynamic_reshape"),
}
NOTHING = {"constant", "iota", "create_token", "after_all", "partition_id", "replica_id", "dynamic_iota"}
COLLECTIVES = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"}
ALONE: Mapping[str, Kind] = {
    "scatter": "gather and scatter", "sort": "gather and scatter", "select_and_scatter": "memory",
}  # fmt: skip
MARKS = ("Sharding", "annotate_device_placement", "SPMD", "xla.sdy")  # calls that state a fact
RANDOM = ("threefry", "Rng", "rng")  # calls that make numbers, as element-wise kernels do
NESTED = ("while", "case", "if")
COPY = re.compile(r"mhlo\.copy (%\S+) : (tensor<[^<>]*>)")
LARGEST_WINDOW = 2**24  # places beyond it are nonsense, and would take long to count


def parsed_program(text: str) -> Any:
    """Return a program's text as an MLIR module, as TensorFlow writes it: XLA's own copies are views."""
    with make_ir_context():
        return ir.Module.parse(COPY.sub(r"stablehlo.reshape \1 : (\2) -> \2", text))


def count_program(lowered: Any, donated_places: Collection[int] = ()) -> Counted:
    """Count a `jax.stages.Lowered` or an MLIR module, whose arguments at some places are overwritten.

    Raises StudyError where its shapes are not known.
    """
    module = lowered.compiler_ir("stablehlo") if hasattr(lowered, "compiler_ir") else lowered
    functions = {ir.StringAttr(one.attributes["sym_name"]).value: one for one in module.body.operations}
    main = functions.get("main") or next(iter(functions.values()))
    reader, block = _Reader(functions), main.regions[0].blocks[0]
    given = [reader.new(argument.type) for argument in block.arguments]
    results = reader.walk(block, [Read(value, reader.size[value]) for value in given], {})
    facts = map(str, ir.ArrayAttr(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else ())
    donated = {value for value, text in zip(given, facts, strict=False) if "aliasing" in text or "donor" in text}
    donated |= {given[place] for place in donated_places}
    counted = reader.counted(results, set(given), donated)
    counted.arguments = sum(reader.size[value] for value in given)
    return counted


@lru_cache(maxsize=100_000)
def _array(text: str) -> tuple[tuple[int, ...], float]:
    """Return sizes and bytes of an array by its MLIR type, as `tensor<8x4xf32>`; a token has no bytes."""
    if not text.startswith("tensor<"):
        return (), 0.0
    *sizes, element = text[len("tensor<") : -1].split(",")[0].replace("complex<", "").rstrip(">").split("x")
    if "?" in sizes:
        raise StudyError(f"its shapes depend on values ({text}): it cannot be counted")
    bits = int(re.findall(r"\d+", element.replace("f8E", "f8 "))[0]) * (2 if "complex" in text else 1)
    nbytes = prod(map(int, sizes)) * max(bits, 8 if bits == 1 else bits) / 8
    return tuple(map(int, sizes)), nbytes


def _shape(value: Any) -> tuple[int, ...]:
    return _array(str(value.type))[0]


class _Reader:
    """Walks one level of a program: calls are part of it, bodies of loops are levels of their own."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self.size: list[float] = []  # by value
        self._operations: list[Operation] = []
        self._unknown_loops = self._unknown_calls = 0
        self._known: dict[Any, int] = {}  # constants that are one whole number

    def new(self, kind: Any) -> int:
        """Return a new value of an MLIR type."""
        self.size.append(_array(str(kind))[1])
        return len(self.size) - 1

    def counted(self, results: Sequence[Read], given: set[int], donated: set[int]) -> Counted:
        """Return what the level does."""
        outputs = {read.value for read in results if read.value is not None}
        counted = Level(self.size, self._operations, given, outputs).counted(donated)
        counted.unknown_loops, counted.unknown_calls = self._unknown_loops, self._unknown_calls
        return counted

    def walk(self, block: Any, given: Sequence[Read], around: Mapping[Any, Read]) -> list[Read]:
        """Read a block with these arguments; return what it returns."""
        values = {**around, **dict(zip(block.arguments, given, strict=True))}
        for operation in block.operations:
            name = operation.operation.name.rpartition(".")[2]
            reads = [values[operand] for operand in operation.operands]
            if name == "return":
                return reads
            values.update(zip(operation.results, self._made(operation, name, reads, values), strict=True))
        return []

    def _made(self, node: Any, name: str, reads: list[Read], values: Mapping[Any, Read]) -> list[Read]:
        """Put an operation down; return its results."""
        if name == "constant" and (number := _number(node)) is not None:
            self._known[node.results[0]] = number
        if name in ("call", "composite"):
            return self._called(node, name, reads)
        if name in NOTHING:
            return [Read(None, 0.0) for _ in node.results]
        if name in VIEWS or (name == "custom_call" and _target(node).startswith(MARKS)):
            most = [_array(str(result.type))[1] for result in node.results]
            turned = name == "transpose"
            return [
                Read(read.value, min(read.nbytes, size), read.turned or turned)
                for read, size in zip(reads, most, strict=False)
            ]
        made = self._nested(node, name, reads, values) if name in NESTED else _plain(node, name, reads)
        self._unknown_calls += name == "custom_call" and made.kind != "joined"
        made.writes = [self.new(result.type) for result in node.results]
        self._operations.append(made)
        return [Read(value, self.size[value]) for value in made.writes]

    def _called(self, node: Any, name: str, reads: list[Read]) -> list[Read]:
        called = self._functions[str(node.attributes["callee" if name == "call" else "decomposition"]).lstrip("@")]
        block = called.regions[0].blocks[0]
        pairs = zip(block.arguments, node.operands, strict=True)
        self._known |= {inside: self._known[outside] for inside, outside in pairs if outside in self._known}
        return self.walk(block, reads, {})

    def _nested(self, node: Any, name: str, reads: list[Read], values: Mapping[Any, Read]) -> Operation:
        """A loop, or the branch with most work."""
        runs = _trips(node, self._known) if name == "while" else 1
        self._unknown_loops += runs is None
        branches = []
        for region in [node.regions[1]] if name == "while" else node.regions:
            inner, block = _Reader(self._functions), region.blocks[0]
            around = {
                value: read if read.value is None else inner._reference(value) for value, read in values.items()
            }
            given = [inner._reference(argument) for argument in block.arguments]
            results = inner.walk(block, given, around)
            inside = {read.value for read in (*given, *around.values()) if read.value is not None}
            branches.append(inner.counted(results, inside, inside))
        reads = [*reads, *(self._copied(read) for read in reads if read.turned)]
        heaviest = max(branches, key=lambda branch: branch.total().weight)
        return Operation("loop", [read._replace(nbytes=0.0) for read in reads], body=heaviest, runs=runs or 1)

    def _copied(self, read: Read) -> Read:
        """Return a copy in memory of what is read."""
        self.size.append(read.nbytes)
        value = len(self.size) - 1
        self._operations.append(Operation("joined", [read], writes=[value]))
        return Read(value, read.nbytes)

    def _reference(self, value: Any) -> Read:
        number = self.new(value.type)
        return Read(number, self.size[number])


def _target(call: Any) -> str:
    return ir.StringAttr(call.attributes["call_target_name"]).value


def _number(constant: Any) -> int | None:
    whole = not _shape(constant.results[0]) and "i" in str(constant.results[0].type)
    return int(ir.DenseIntElementsAttr(constant.attributes["value"])[0]) if whole else None


def _trips(loop: Any, known: Mapping[Any, int]) -> int | None:
    """Return how often a loop runs whose counter starts at a known number and ends below another, as JAX's scan has."""
    condition = loop.regions[0].blocks[0]
    starts = {inside: known.get(given) for inside, given in zip(condition.arguments, loop.operands, strict=True)}
    for node in condition.operations:
        if node.operation.name == "stablehlo.constant":
            starts[node.results[0]] = _number(node)
        if node.operation.name == "stablehlo.compare" and "LT" in str(node.attributes["comparison_direction"]):
            first, end = (starts.get(operand, known.get(operand)) for operand in node.operands)
            return None if first is None or end is None else end - first
    return None


def _plain(node: Any, name: str, reads: list[Read]) -> Operation:
    """An operation with no program inside."""
    out = _array(str(node.results[0].type))[1] if len(node.results) else 0.0
    if name in ("dot", "dot_general", "convolution"):
        kind, operations = _convolution(node) if name == "convolution" else _product(node)
        return Operation(kind, reads, _precision(node), operations)
    if name == "scatter":  # reads and rewrites the rows that it meets
        kept, moved = reads[0]._replace(nbytes=0.0), 2 * reads[-1].nbytes
        return Operation(ALONE[name], [kept, *reads[1:]], written=moved, place=kept.value)
    if name in ALONE or name in COLLECTIVES:
        return Operation(ALONE.get(name, "collective"), reads)
    if name == "dynamic_update_slice":
        kept = reads[0]._replace(nbytes=0.0)
        return Operation("joined", [kept, reads[1]], written=reads[1].nbytes, ends=True, place=kept.value)
    if "gather" in name:
        rows = reads[0]._replace(nbytes=min(reads[0].nbytes, out))
        return Operation("joined", [rows, *reads[1:]], gathers=True)
    if name == "custom_call" and not any(word in _target(node) for word in RANDOM):
        return Operation("memory", reads)
    return Operation("joined", reads, ends=name in ("reduce", "reduce_window"))


def _precision(node: Any) -> Precision:
    """Return the number format of a product: by its arrays, else by what it asks of float32."""
    if not any(bits in str(operand.type) for operand in node.operands for bits in ("f32", "f64")):
        return "half"
    if "algorithm" in node.attributes:
        asked = str(node.attributes["algorithm"]).partition("lhs_precision_type = ")[2]
        return "half" if asked.startswith(("bf16", "f16")) else "tf32" if asked.startswith("tf32") else "float32"
    asked = str(node.attributes["precision_config"]) if "precision_config" in node.attributes else ""
    return "float32" if "HIGHEST" in asked else "tf32"


def _product(node: Any) -> tuple[Kind, float]:
    left, out = _shape(node.operands[0]), prod(_shape(node.results[0]))
    axes = [len(left) - 1]  # of a plain `dot`, as TensorFlow has it
    if "dot_dimension_numbers" in node.attributes:
        axes = stablehlo.DotDimensionNumbers(node.attributes["dot_dimension_numbers"]).lhs_contracting_dimensions
    return "product", 2.0 * out * prod(left[axis] for axis in axes)


def _convolution(node: Any) -> tuple[Kind, float]:
    """Return kind and operations: of pairs of kernel and input that both exist."""
    axes, written = stablehlo.ConvDimensionNumbers(node.attributes["dimension_numbers"]), node.attributes
    image, kernel, out = (_shape(array) for array in (*node.operands, node.results[0]))
    rank = len(axes.input_spatial_dimensions)
    groups, batches = (ir.IntegerAttr(written[f"{name}_group_count"]).value for name in ("feature", "batch"))
    low = np.array(ir.DenseIntElementsAttr(written["padding"]))[:, 0] if "padding" in written else [0] * rank
    names = ("window_strides", "lhs_dilation", "rhs_dilation")
    steps = [list(ir.DenseI64ArrayAttr(written[name])) if name in written else [1] * rank for name in names]
    pairs = 1.0
    for place, settings in enumerate(zip(map(int, low), *steps, strict=True)):
        size = image[axes.input_spatial_dimensions[place]]
        window = kernel[axes.kernel_spatial_dimensions[place]]
        pairs *= _pairs(size, window, out[axes.output_spatial_dimensions[place]], *settings)
    channels = kernel[axes.kernel_input_feature_dimension] * kernel[axes.kernel_output_feature_dimension]
    operations = 2.0 * image[axes.input_batch_dimension] / batches * channels * pairs
    return "grouped convolution" if max(groups, batches) > 1 else "convolution", operations


@lru_cache(maxsize=10_000)
def _pairs(size: int, kernel: int, out: int, low: int, stride: int, dilate: int, spread: int) -> int:
    """Return pairs of kernel place and output place, along one axis, that meet a true element of the input."""
    if kernel * out > LARGEST_WINDOW:
        raise StudyError("a convolution of this size cannot be counted")
    at = np.arange(out)[:, None] * stride + np.arange(kernel) * spread - low
    return int(((at >= 0) & (at <= (size - 1) * dilate) & (at % dilate == 0)).sum())
