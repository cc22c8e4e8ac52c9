"""Operations of the matrix products in a program: convolutions (the TPU compiler writes products as such) and dots.

A product of n × k by k × m counts 2·n·k·m operations. Places of a convolution's window that fall on padding count
nothing, as in XLA's own cost analysis. Elementwise work is left out, as in workloads/costs.py.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from whichdevice.errors import StudyError
from whichdevice.forecast.hlo import Computation, Instruction, Program

# Passes of a bfloat16 matrix unit per product, by XLA's operand precision; cycles of a 4096³ product agree within 7 %.
PASSES = {"default": 1, "high": 3, "highest": 6}
LARGEST_WINDOW = 2**24  # window sizes beyond it are nonsense, and would take long to count


@dataclass(frozen=True)
class Products:
    """Operations, and operations times the passes that the matrix units need for them."""

    flops: float = 0.0
    passes_flops: float = 0.0

    def __add__(self, other: "Products") -> "Products":
        return Products(self.flops + other.flops, self.passes_flops + other.passes_flops)


def products_of(instruction: Instruction, computation: Computation, program: Program) -> Products:
    """All products of one instruction, those of the computations that a fusion calls included, each once."""
    return _products(instruction, computation, program, depth=0)


def _products(instruction: Instruction, computation: Computation, program: Program, depth: int) -> Products:
    if instruction.opcode in ("convolution", "dot"):
        count = _convolution if instruction.opcode == "convolution" else _dot
        flops = count(instruction, computation)
        return Products(flops, flops * _passes(instruction))
    total = Products()
    if instruction.opcode == "fusion":
        if depth > len(program.computations):
            raise StudyError(f"TPU program: {instruction.name} calls itself")
        fused = program.computation(instruction.called.get("calls", ""))
        for each in fused.instructions.values():
            if each.opcode in ("convolution", "dot", "fusion"):
                total += _products(each, fused, program, depth + 1)
    return total


def _passes(instruction: Instruction) -> int:
    asked = re.findall(r"\w+", instruction.attribute("operand_precision"))
    return max((PASSES.get(each, 1) for each in asked), default=1)


def _dot(instruction: Instruction, computation: Computation) -> float:
    left = computation.operand(instruction, 0).shapes[0]
    contracted = re.findall(r"\d+", instruction.attribute("lhs_contracting_dims"))
    return 2.0 * prod(instruction.shapes[0].dims) * prod(left.dims[int(axis)] for axis in contracted)


def _convolution(instruction: Instruction, computation: Computation) -> float:
    left = computation.operand(instruction, 0).shapes[0].dims
    out = instruction.shapes[0].dims
    labels = re.fullmatch(r"(\w+)_(\w+)->(\w+)", instruction.attribute("dim_labels"))
    if labels is None or len(labels[1]) != len(left) or len(labels[3]) != len(out):
        raise StudyError(f"TPU program: cannot read the dimensions of {instruction.name}")
    groups = int(instruction.attribute("feature_group_count") or 1)
    batches = int(instruction.attribute("batch_group_count") or 1)
    channels = left[labels[1].index("f")] / groups * out[labels[3].index("f")]
    places = 1
    for axis in range(len(left) - 2):
        sizes = left[labels[1].index(str(axis))], out[labels[3].index(str(axis))]
        places *= _places(*sizes, _window(instruction, axis))
    return 2.0 * left[labels[1].index("b")] / batches * channels * places


class Window(NamedTuple):
    """A convolution's window along one axis."""

    size: int
    stride: int
    low: int  # padding before the first element
    dilate: int  # distance of the input's elements
    spread: int  # distance of the kernel's elements


def _window(instruction: Instruction, axis: int) -> Window:
    found = re.search(r"window=\{([^}]*)\}", instruction.attributes)
    values = dict(part.split("=", 1) for part in found[1].split()) if found else {}

    def value(name: str, default: str) -> int:
        return int((values[name].split("x")[axis] if name in values else default).split("_")[0])

    return Window(
        value("size", "1"), value("stride", "1"), value("pad", "0"), value("lhs_dilate", "1"), value("rhs_dilate", "1")
    )


@lru_cache(maxsize=4096)
def _places(size: int, out: int, window: Window) -> int:
    """Pairs of kernel element and output element that meet a true input element, along one axis.

    Kernel element k of output o reads place o·stride + k·spread − low of the input, which holds a true element at
    each multiple of `dilate` below size·dilate.
    """
    kernel, stride, low, dilate, spread = window
    if not 0 < kernel <= LARGEST_WINDOW or min(size, out, stride, dilate, spread) < 1:
        raise StudyError(f"TPU program: a window of {kernel} over {size} with stride {stride} makes no sense")
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
