"""Device memory: what a compiled program needs, and what the compiler says of one that does not fit."""

import re
from dataclasses import dataclass
from typing import Any

from whichdevice.errors import StudyError

UNITS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
SIZE = r"([\d.]+)([KMGTP]?)i?B?"
# The two ways in which libtpu 0.0.42 says it; both name the need and what HBM has left for a program.
MESSAGES = (
    re.compile(rf"Used {SIZE} of {SIZE} hbm", re.IGNORECASE),
    re.compile(rf"\({SIZE}\) exceeds available HBM \({SIZE}\)", re.IGNORECASE),
)


class OutOfDeviceMemoryError(StudyError):
    """The program does not fit a device's HBM; both sizes in bytes, as the compiler rounds them."""

    def __init__(self, needed: float, available: float) -> None:
        super().__init__(
            f"needs {needed / 2**30:.2f} GiB of HBM on each device, {available / 2**30:.2f} GiB are available: "
            f"{(needed - available) / 2**30:.2f} GiB too much"
        )
        self.needed, self.available = needed, available


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes on one device, by the compiler's memory analysis."""

    arguments: int
    outputs: int
    aliased: int  # outputs that take an argument's place
    temporary: int
    code: int

    @property
    def total(self) -> int:
        """All that lies in HBM at once."""
        return self.arguments + self.outputs - self.aliased + self.temporary + self.code


def memory_need(analysis: Any) -> MemoryNeed:
    """From JAX's `Compiled.memory_analysis()`."""
    return MemoryNeed(
        analysis.argument_size_in_bytes,
        analysis.output_size_in_bytes,
        analysis.alias_size_in_bytes,
        analysis.temp_size_in_bytes,
        analysis.generated_code_size_in_bytes,
    )


def out_of_memory(message: str) -> OutOfDeviceMemoryError | None:
    """The error that a compiler's message stands for, or None where it is about something else."""
    for pattern in MESSAGES:
        if found := pattern.search(message):
            needed, available = _bytes(found[1], found[2]), _bytes(found[3], found[4])
            return OutOfDeviceMemoryError(needed, available)
    return None


def _bytes(number: str, unit: str) -> float:
    return float(number) * UNITS[unit.upper()]
