"""The forecast of a step's time from its work: few constants with a physical meaning, and an 80 % interval.

    forecast = forecast_step(work, hardware_rows()["T4"], "mixed_float16", "train")
    forecast.seconds, forecast.low, forecast.high, forecast.note

The step takes, summed over its kernels, the roofline time max(operations / peak, bytes / bandwidth) at the peaks of the
hardware sheet, times how much longer this class of work takes in practice, plus a time for each kernel. Constants and
widths of the intervals are in config/forecast_constants.json: `make forecasts` fits them to published times
(validation.py). The forecast holds for a compiled step whose data is on the device.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from whichdevice.config.hardware import HardwareRow
from whichdevice.errors import StudyError
from whichdevice.files import CONFIG
from whichdevice.forecast.work import Platform, Work

CONSTANTS = CONFIG / "forecast_constants.json"
Case = Literal["known", "device", "family", "both"]
Family = Literal["convolutions", "grouped convolutions", "products", "few kernels", "memory", "small steps"]
SMALL_STEP = 5e-3  # seconds; below, launches and the host's dispatch decide
LAUNCH_BOUND = 1 / 3  # share of launches in the time, from which on the same holds
LAUNCHES = (2e-6, 20e-6)  # seconds of one: within a CUDA graph, and from a busy host
SMALL_NOTE = (
    "any of them; the host decides: a small step is bound by launches and dispatch, which no published row covers"
)
LOW_POWER = 150.0  # watts; at and below, GPUs do not hold their clock under load
# Bytes per second from one GPU to the others, in one direction. NVLink, half of the total of all links: 160, 300, 600,
# 900 and 1800 GB/s; PCIe 3, 4 and 5 with 16 lanes (alpha-one-index.github.io/ai-infra-index, interconnects).
NVLINK = {"P100": 80e9, "V100": 150e9, "A100": 300e9, "H100": 450e9, "H200": 450e9, "GH200": 450e9, "B200": 900e9}
PCIE = {6: 16e9, 7: 16e9, 8: 32e9, 9: 64e9, 10: 64e9, 12: 64e9}  # by compute capability
FORMS = re.compile(r" (PCIe|SXM\d?|\d+GB|Server|Workstation)\b.*")


@dataclass(frozen=True)
class Chip:
    """What a TPU's sheet row lacks: cores that JAX sees as devices, clock in Hz, bytes/s of a link in one direction."""

    cores: int
    clock: float
    link: float


# Clocks: matrix units × clock × 2 gives the sheet's peak (v2 1 × 128², v3 2, v4, v5e and v5p 4 a core; v6e 4 × 256²).
# Links: v3 and v2 656 and 496 Gbit/s (Jouppi et al., "A Domain-Specific Supercomputer for Training Deep Neural
# Networks", CACM 2020, unverified); v4 to v6e: the table "ICI BW/link (one-way)" of jax-ml/scaling-book, tpus.md.
TPUS = {
    "TPU v2": Chip(2, 0.70e9, 62e9),
    "TPU v3": Chip(2, 0.94e9, 82e9),
    "TPU v4": Chip(1, 1.05e9, 45e9),
    "TPU v5e": Chip(1, 1.50e9, 50e9),
    "TPU v5p": Chip(1, 1.75e9, 100e9),
    "TPU v6e": Chip(1, 1.75e9, 100e9),
}


@dataclass(frozen=True)
class Peaks:
    """What one device does by its sheet, per second: operations by precision, bytes of memory and of a link."""

    device: str
    platform: Platform
    operations: Mapping[str, float]
    bandwidth: float
    link: float
    clock: float | None = None
    low_power: bool = False

    @property
    def chip(self) -> str:
        """The device without form and memory: `A100 PCIe 40GB` is an A100."""
        return chip_of(self.device)

    @classmethod
    def of(cls, row: HardwareRow) -> "Peaks":
        """Of a row of config/hardware.csv; raises StudyError where a number is missing."""
        tera = {"float32": row.fp32_tflops, "tf32": row.tf32_tflops or row.fp32_tflops, "half": row.half_dense_tflops}
        if row.kind == "tpu" and row.half_dense_tflops is not None:
            tera |= {"tf32": row.half_dense_tflops / 3, "float32": row.half_dense_tflops / 6}
        missing = [name for name, value in {**tera, "bandwidth": row.mem_bw_gbs}.items() if value is None]
        if missing or (row.kind == "tpu" and row.device not in TPUS):
            raise StudyError(
                f"hardware.csv: {row.device} has no number for a forecast: {', '.join(missing) or 'clock'}"
            )
        operations, bandwidth = (
            {name: (value or 0.0) * 1e12 for name, value in tera.items()},
            (row.mem_bw_gbs or 0.0) * 1e9,
        )
        if row.kind == "tpu":
            tpu = TPUS[row.device]
            per_core = {name: value / tpu.cores for name, value in operations.items()}
            return cls(row.device, "tpu", per_core, bandwidth / tpu.cores, tpu.link, tpu.clock)
        link = NVLINK.get(chip_of(row.device)) if "PCIe" not in row.device else None
        link = link or PCIE.get(int(float(row.compute_capability or 8)), 32e9)
        low_power = row.power_w is not None and 0 < row.power_w <= LOW_POWER
        return cls(row.device, "gpu", operations, bandwidth, link, None, low_power)


def chip_of(device: str) -> str:
    """The device without form and memory: `A100 PCIe 40GB` is an A100, `V100 SXM2` a V100."""
    return FORMS.sub("", device)


@dataclass(frozen=True)
class Forecast:
    """A step's time with its 80 % interval, in seconds. Nobody ran it: it may name candidates and decides nothing."""

    seconds: float
    low: float
    high: float
    case_device_known: bool  # whether published times of this chip were among those that the model was tested on
    case_family_known: bool
    family: Family
    note: str
    parts: Mapping[str, float]  # seconds by class of work


def forecast_step(
    work: Work,
    device: HardwareRow,
    precision: str = "",
    mode: str = "train",
    devices: int = 1,
    constants: Mapping[str, Any] | None = None,
) -> Forecast:
    """Forecast one run of a program on a device of config/hardware.csv, on each of `devices` that share a step.

    `work` was read from the program that the device's compiler made, which settles the precision of every product;
    `precision` and `mode` are the caller's names of what was compiled. Raises StudyError where the sheet lacks a
    number.
    """
    peaks = Peaks.of(device)
    fitted = constants or read_constants()
    factors = fitted[peaks.platform]["factors"]
    borrowed = {name: fitted["gpu"]["factors"][name] for name in BORROWED if name not in factors}
    parts = seconds_by_class(work, peaks, {**borrowed, **factors})
    seconds = sum(parts.values())
    family = family_of(work, seconds, parts)
    groups = fitted[peaks.platform]
    device_known = peaks.chip in groups["chips"]
    together = devices == 1 or peaks.platform == "tpu"
    family_known = family in groups["families"] and together and mode != "decode"
    case = case_of(device_known, family_known)
    spread = math.exp(groups["widths"][case])
    low, high, note = seconds / spread, seconds * spread, ""
    if family == "small steps":
        spread = math.exp(groups["widths"]["both"])
        others = seconds - parts.get("launches", 0.0)
        fastest, slowest = (others + work.kernels * each for each in LAUNCHES)
        low, high, note = min(fastest, seconds) / spread, max(slowest, seconds) * spread, SMALL_NOTE
    elif borrowed.keys() & parts.keys():
        # No TPU's published time has such work: the widest interval of both platforms.
        spread = math.exp(max(fitted[each]["widths"]["both"] for each in ("gpu", peaks.platform)))
        low, high = seconds / spread, seconds * spread
        note = f"no published times of {family} on a {device.kind.upper()}: a GPU's factor, and a wider interval"
    elif not device_known or not family_known:
        unknown = _unknown(peaks.chip, family, device_known, family_known, devices, mode)
        note = f"no published times of {unknown}: wider interval"
    if work.unknown_loops:
        low, high = low / spread, high * spread
        note = "; ".join(filter(None, [note, f"{work.unknown_loops} loops of unknown length counted once"]))
    return Forecast(seconds, low, high, device_known, family_known, family, note, parts)


BORROWED = ("grouped convolution",)  # classes whose factor comes from GPUs where a platform has none


def case_of(device_known: bool, family_known: bool) -> Case:
    """What was not among the published times."""
    if device_known:
        return "known" if family_known else "family"
    return "device" if family_known else "both"


def _unknown(chip: str, family: str, device_known: bool, family_known: bool, devices: int, mode: str) -> str:
    if devices > 1:
        return f"{devices} devices together"
    what = "tokens generated one by one" if mode == "decode" else f"a model of {family} from two sources"
    missing = [f"the {chip}"] * (not device_known) + [what] * (not family_known)
    return " or ".join(missing)


def family_of(work: Work, seconds: float, parts: Mapping[str, float]) -> Family:
    """The kind of model that a program is, by what it does."""
    if work.platform == "gpu" and (seconds < SMALL_STEP or parts.get("launches", 0.0) > LAUNCH_BOUND * seconds):
        return "few kernels" if work.kernels <= FEW_KERNELS else "small steps"
    operations: dict[str, float] = defaultdict(float)
    for item in work.items:
        operations[item.kind] += item.operations * item.count
    if not sum(operations.values()):
        return "memory"
    if work.grouped:
        return "grouped convolutions"
    if work.kernels <= FEW_KERNELS:
        return "few kernels"
    return "convolutions" if operations["convolution"] > operations["product"] else "products"


FEW_KERNELS = 10  # a single operation rather than a model


def roofline_by_class(work: Work, peaks: Peaks) -> dict[str, float]:
    """Seconds at the sheet's peaks by class, and under "kernels" how many there are.

    Classes are products and convolutions by precision (" at low power" where a card cannot hold its clock and
    operations bind), grouped convolutions, memory, gather and scatter, transfers, collectives.
    """
    found: dict[str, float] = defaultdict(float)
    found["kernels"] = work.kernels
    for item in work.items:
        if item.kind == "collective":
            found["collective"] += item.count * ring_bytes(item.bytes, item.devices) / peaks.link
        elif not item.operations:
            found[item.kind] += item.count * item.bytes / peaks.bandwidth
        else:
            precision = item.precision
            if precision == "tf32" and peaks.operations[precision] == peaks.operations["float32"]:
                precision = "float32"
            computed, moved = item.operations / peaks.operations[precision], item.bytes / peaks.bandwidth
            name = (
                item.kind
                if item.kind == "grouped convolution" or peaks.platform == "tpu"
                else f"{item.kind} {precision}"
            )
            if peaks.low_power and computed > moved:
                name += " at low power"
            found[name] += item.count * max(computed, moved)
    return dict(found)


def seconds_by_class(work: Work, peaks: Peaks, factors: Mapping[str, float]) -> dict[str, float]:
    """Seconds by class: roofline time × factor, and launches."""
    parts: dict[str, float] = defaultdict(float)
    for name, seconds in roofline_by_class(work, peaks).items():
        if name == "kernels":
            parts["launches"] = seconds * factors["launch"]
            continue
        plain = name.removesuffix(" at low power")
        parts[plain] += seconds * factors[plain] * (factors["low power"] if plain != name else 1.0)
    return dict(parts)


def ring_bytes(nbytes: float, devices: int) -> float:
    """Bytes that each link of a ring carries for an all-reduce, the heaviest collective: 2·(n − 1) / n of its size."""
    return 2 * (devices - 1) / devices * nbytes if devices > 1 else 0.0


@cache
def read_constants(path: Path = CONSTANTS) -> Mapping[str, Any]:
    """The fitted constants; raises StudyError where the file cannot be read."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StudyError(f"{path.name}: cannot be read: {error}; `make forecasts` writes it") from None
