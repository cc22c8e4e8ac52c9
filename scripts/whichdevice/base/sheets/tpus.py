"""TPU chips beyond their rows of config/hardware.csv, which has peaks, memory and bandwidth. Imports no framework.

A device of a chip is what a framework sees: a core on TPU v2, v3 and 7x (half of the chip), the whole chip of others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8")


@dataclass(frozen=True)
class Chip:
    """One generation of TPUs."""

    device: str  # row of config/hardware.csv
    pci: str  # its device on the PCI bus
    devices: int  # of a chip
    clock: float  # Hz
    link: float  # bytes per second of a link in one direction
    unit: int  # rows and columns of a matrix unit
    available: float  # GiB of a device's memory that libtpu leaves to a program
    slices: tuple[str, ...]  # chips along each axis
    machines: tuple[int, ...]  # chips of the single machines that are rented
    named: str  # what its slices are called, followed by a number ...
    counted: int = 1  # ... of so many for each chip
    runtime: str = ""  # of the machines that are rented

    @property
    def short(self) -> str:
        """`v5e`."""
        return self.device.removeprefix("TPU").strip().lower() if " " in self.device else self.device.lower()


@dataclass(frozen=True)
class Topology:
    """A TPU slice: its name in configs and its row in config/hardware.csv."""

    name: str
    chip: str
    devices: int
    chips: int
    accelerator: str  # what a TPU VM of this kind calls itself

    @property
    def names(self) -> tuple[str, ...]:
        """Names that people call it by: `v5e-2x4`, `v5litepod-8`, `v5e-8`."""
        return self.name, self.accelerator, f"{self.name.partition('-')[0]}-{self.accelerator.rpartition('-')[2]}"


# Ids: jax/_src/hardware_utils.py, tpu_info/device.py of cloud-accelerator-diagnostics; machines and runtimes:
# cloud.google.com/tpu/docs.
# Clocks: matrix units × clock × 2 gives the sheet's peak (v2 1 × 128², v3 2, v4, v5e and v5p 4 a core; v6e and a core
# of 7x 4 × 256²).
# Links: v3 and v2 656 and 496 Gbit/s (Jouppi et al., "A Domain-Specific Supercomputer for Training Deep Neural
# Networks", CACM 2020, unverified); v4 to v6e: the table "ICI BW/link (one-way)" of jax-ml/scaling-book, tpus.md;
# 7x: 600 GB/s of six links (stas00/ml-engineering).
# Available: what libtpu 0.0.42 says to a program that is far too large.
V2_SUBSYSTEM = "0x004e"  # v2 and v3 share a device on the bus
CHIPS = {
    chip.device: chip
    for chip in (
        Chip("TPU v2", "0x0027", 2, 0.70e9, 62e9, 128, 7.48, ("2x2",), (4,), "v2", 2, "tpu-ubuntu2204-base"),
        Chip("TPU v3", "0x0027", 2, 0.94e9, 82e9, 128, 15.48, ("2x2",), (4,), "v3", 2, "tpu-ubuntu2204-base"),
        Chip("TPU v4", "0x005e", 1, 1.05e9, 45e9, 128, 30.75, CUBES, (4,), "v4", 2, "tpu-ubuntu2204-base"),
        Chip("TPU v5e", "0x0063", 1, 1.50e9, 50e9, 128, 15.75, FLAT, (1, 4, 8), "v5litepod", 1, "v2-alpha-tpuv5-lite"),
        Chip("TPU v5p", "0x0062", 1, 1.75e9, 100e9, 128, 95.74, CUBES, (4,), "v5p", 2, "v2-alpha-tpuv5"),
        Chip("TPU v6e", "0x006f", 1, 1.75e9, 100e9, 256, 31.25, FLAT, (1, 4, 8), "v6e", 1, "v2-alpha-tpuv6e"),
        Chip("TPU7x", "0x0076", 2, 2.20e9, 100e9, 256, 94.75, ("1x1x1", "2x2x1"), (1,), "tpu7x", 2),
    )
}


def _slices() -> Iterator[Topology]:
    for chip in CHIPS.values():
        for bounds in chip.slices:
            chips = prod(map(int, bounds.split("x")))
            accelerator = f"{chip.named}-{chips * chip.counted}"
            yield Topology(f"{chip.short}-{bounds}", chip.device, chips * chip.devices, chips, accelerator)


TOPOLOGIES: dict[str, Topology] = {topology.name: topology for topology in _slices()}


def devices_of(device: str) -> int:
    """Devices that a framework sees in one chip of a row of the sheet: 2 of an older TPU, else 1."""
    return CHIPS[device].devices if device in CHIPS else 1
