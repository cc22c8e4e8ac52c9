"""TPU slices that the compiler knows by name, and what one of their devices can do. Importable without JAX.

A device is what JAX sees: a core on v2 and v3 (half a chip's memory and bandwidth), a whole chip from v4 on, v4's two
cores joined (megacore). Peak, memory and bandwidth are config/hardware.csv's; clocks and links stand here.
"""

import csv
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from whichdevice.errors import StudyError

HARDWARE = Path(__file__).parents[3] / "config" / "hardware.csv"


@dataclass(frozen=True)
class Topology:
    """A slice: its name in configs, its row in config/hardware.csv and its name for libtpu."""

    name: str
    chip: str
    libtpu: str
    devices: int
    accelerator: str  # what a TPU VM of this kind calls itself
    options: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Device:
    """One device of a slice: operations, bytes and cycles per second, and its memory in bytes."""

    peak: float  # bfloat16 products
    bandwidth: float  # HBM
    memory: float  # HBM, by the sheet
    clock: float
    link: float  # one inter-chip link, one direction


# Clock in Hz and bytes/s of one link in one direction. Clocks: matrix units × clock × 2 gives the sheet's peak
# (v2 1 × 128², v3 2, v4, v5e and v5p 4 a core; v6e 4 × 256²). Links: v3 and v2 656 and 496 Gbit/s (Jouppi et al., "A
# Domain-Specific Supercomputer for Training Deep Neural Networks", CACM 2020, from memory: unverified); v4 to v6e: the
# table "ICI BW/link (one-way)" of jax-ml/scaling-book, tpus.md, which has 1e11 for v3.
CLOCK_AND_LINK = {
    "TPU v2": (0.70e9, 62e9),
    "TPU v3": (0.94e9, 82e9),
    "TPU v4": (1.05e9, 45e9),
    "TPU v5e": (1.50e9, 50e9),
    "TPU v5p": (1.75e9, 100e9),
    "TPU v6e": (1.75e9, 100e9),
}
CORES_AS_DEVICES = {"TPU v2": 2, "TPU v3": 2}  # devices in one chip
ONE_CHIP = MappingProxyType({"chips_per_host_bounds": (1, 1, 1)})
MEGACORE = MappingProxyType({"chip_config_name": "megacore"})

TOPOLOGIES: dict[str, Topology] = {
    each.name: each
    for each in (
        Topology("v2-2x2", "TPU v2", "v2:2x2", 8, "v2-8"),
        Topology("v3-2x2", "TPU v3", "v3:2x2", 8, "v3-8"),
        Topology("v4-2x2x1", "TPU v4", "v4:2x2x1", 4, "v4-8", MEGACORE),
        Topology("v5e-1x1", "TPU v5e", "v5e:1x1", 1, "v5litepod-1", ONE_CHIP),
        Topology("v5e-2x2", "TPU v5e", "v5e:2x2", 4, "v5litepod-4"),
        Topology("v5e-2x4", "TPU v5e", "v5e:2x4", 8, "v5litepod-8"),
        Topology("v5p-2x2x1", "TPU v5p", "v5p:2x2x1", 4, "v5p-8"),
        Topology("v6e-1x1", "TPU v6e", "v6e:1x1", 1, "v6e-1", ONE_CHIP),
        Topology("v6e-2x2", "TPU v6e", "v6e:2x2", 4, "v6e-4"),
        Topology("v6e-2x4", "TPU v6e", "v6e:2x4", 8, "v6e-8"),
    )
}


def topology_named(name: str) -> Topology:
    """The slice of that name; raises StudyError with the known names."""
    try:
        return TOPOLOGIES[name]
    except KeyError:
        raise StudyError(f"no TPU topology {name!r}; there are {', '.join(TOPOLOGIES)}") from None


@cache
def device_of(chip: str) -> Device:
    """What one device of this chip does, from config/hardware.csv and the table above."""
    with HARDWARE.open(encoding="utf-8", newline="") as file:
        rows = {row["device"]: row for row in csv.DictReader(file)}
    if chip not in rows:
        raise StudyError(f"{chip} is not in config/hardware.csv")
    row, share = rows[chip], CORES_AS_DEVICES.get(chip, 1)
    clock, link = CLOCK_AND_LINK[chip]
    return Device(
        peak=float(row["half_dense_tflops"]) * 1e12 / share,
        bandwidth=float(row["mem_bw_gbs"]) * 1e9 / share,
        memory=float(row["mem_gb"]) * 2**30 / share,  # the sheets' GB of HBM are GiB
        clock=clock,
        link=link,
    )


def environment(topology: Topology) -> dict[str, str]:
    """Variables that let libtpu compile without a TPU; to be set before JAX is imported."""
    return {
        "JAX_PLATFORMS": "cpu",
        "KERAS_BACKEND": "jax",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_ACCELERATOR_TYPE": topology.accelerator,
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def describe(topology: Topology) -> Any:
    """JAX's description of the slice, `.devices` included.

    Raises StudyError where libtpu is missing or does not load (macOS, Arm).
    """
    missing = {name: value for name, value in environment(topology).items() if name not in os.environ}
    os.environ.update(missing)
    from jax.experimental import topologies

    try:
        return topologies.get_topology_desc(platform="tpu", topology_name=topology.libtpu, **topology.options)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CompilerMissingError(f"the TPU compiler (libtpu) does not load here: {first}") from error


class CompilerMissingError(StudyError):
    """No TPU compiler on this machine."""
