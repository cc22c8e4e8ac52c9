"""TPU VM types of one machine: how many chips each has, what the sheet calls them, which runtime they boot.

Names and sizes: docs.cloud.google.com/tpu/docs (v2, v3, v4, v5e, v5p, v6e); runtimes: .../tpu/docs/runtimes.
"""

from dataclasses import dataclass

from whichdevice.config.faults import did_you_mean
from whichdevice.devices.tpu import CHIPS, V2
from whichdevice.errors import StudyError


@dataclass(frozen=True)
class Generation:
    """`counted` is how many of what the type's number counts one chip has: cores, or the chip itself."""

    hardware: str  # row of config/hardware.csv
    counted: int
    runtime: str

    @property
    def sizes(self) -> tuple[int, ...]:
        """The type's numbers that are one machine."""
        return tuple(self.counted * chips for chips in _CHIPS[self.hardware].machines)


_CHIPS = {chip.name: chip for chip in (V2, *CHIPS.values())}
GENERATIONS = {
    "v2": Generation("TPU v2", 2, "tpu-ubuntu2204-base"),
    "v3": Generation("TPU v3", 2, "tpu-ubuntu2204-base"),
    "v4": Generation("TPU v4", 2, "tpu-ubuntu2204-base"),
    "v5litepod": Generation("TPU v5e", 1, "v2-alpha-tpuv5-lite"),
    "v5p": Generation("TPU v5p", 2, "v2-alpha-tpuv5"),
    "v6e": Generation("TPU v6e", 1, "v2-alpha-tpuv6e"),
}


@dataclass(frozen=True)
class Accelerator:
    """One type of TPU VM; `replicas` are the devices that a framework finds on it."""

    name: str
    hardware: str
    chips: int
    replicas: int
    runtime: str


def known_accelerators() -> list[str]:
    """Every type that is one machine."""
    return [f"{name}-{size}" for name, generation in GENERATIONS.items() for size in generation.sizes]


def accelerator(name: str) -> Accelerator:
    """The type of that name; raises StudyError on one that is unknown or more than one machine."""
    prefix, _, size = name.rpartition("-")
    generation = GENERATIONS.get(prefix)
    if generation is None or not size.isdigit() or int(size) < min(generation.sizes):
        raise StudyError(f"tpu_vm.accelerator_type: {name} is not known{did_you_mean(name, known_accelerators())}")
    if int(size) not in generation.sizes:
        largest = f"{prefix}-{max(generation.sizes)}"
        raise StudyError(
            f"tpu_vm.accelerator_type: {name} is no single machine, and a study measures on one: take {largest}"
        )
    chips = int(size) // generation.counted
    replicas = chips * _CHIPS[generation.hardware].cores
    return Accelerator(name, generation.hardware, chips, replicas, generation.runtime)
