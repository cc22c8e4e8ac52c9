"""Arrays as the TPU compiler writes them: `bf16[128,512]{1,0:T(8,128)(2,1)S(1)}`.

Type, sizes, order of the dimensions from minor to major, tile T, and memory space S: none is HBM, 1 is vector memory,
2 semaphores, 3 the common on-chip memory of TPU v4, 5 the host, 6 scalar memory.
"""

import re
from dataclasses import dataclass
from math import ceil, prod

from whichdevice.errors import StudyError

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


@dataclass(frozen=True)
class Shape:
    """One array: element type, sizes, and where and how it lies in memory."""

    dtype: str
    dims: tuple[int, ...]
    minor_to_major: tuple[int, ...] = ()
    tile: tuple[int, ...] = ()
    space: int = HBM

    @property
    def nbytes(self) -> float:
        """Bytes of the numbers themselves."""
        return prod(self.dims) * BITS[self.dtype] / 8

    @property
    def padded_nbytes(self) -> float:
        """Bytes that it takes in memory: the most minor dimensions are rounded up to whole tiles."""
        physical = [self.dims[axis] for axis in reversed(self.minor_to_major)]
        if not self.tile or len(physical) != len(self.dims):
            return self.nbytes
        physical = [1] * (len(self.tile) - len(physical)) + physical
        kept = len(physical) - len(self.tile)
        rounded = [ceil(size / tile) * tile for size, tile in zip(physical[kept:], self.tile, strict=True)]
        return prod(physical[:kept]) * prod(rounded) * BITS[self.dtype] / 8


def shapes_in(text: str) -> tuple[Shape, ...]:
    """Every array that a type names, those of a tuple in order; raises StudyError on an unknown element type."""
    return tuple(_shape(*found.groups()) for found in LEAF.finditer(text))


def _shape(dtype: str, dims: str, layout: str | None) -> Shape:
    if dtype not in BITS:
        raise StudyError(f"TPU program: unknown element type {dtype}")
    order, _, rest = (layout or "").partition(":")
    tile = re.search(r"T\(([\d,]+)\)", rest)
    space = re.search(r"S\((\d+)\)", rest)
    return Shape(
        dtype,
        _numbers(dims),
        _numbers(order),
        _numbers(tile[1]) if tile else (),
        int(space[1]) if space else HBM,
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))
