"""The forecast of a step's time from its work: few constants with a physical meaning, and an 80 % interval.

    forecast = forecast_step(work, hardware_rows()["T4"], "train")
    forecast.seconds, forecast.low, forecast.high, forecast.note

The device takes, summed over kernels, operations / peak and bytes / bandwidth at the peaks of the hardware sheet, each
times how much longer this class of work takes in practice, plus a time for each kernel. (The larger of the two in place
of their sum, the roofline, fits published times worse.) Each software (programs of XLA, PyTorch operation by operation,
torch.compile) has its own factors. joint.py has how far that is off.
A step takes the larger of the device's time and of the host's, which sends it off. `make forecasts` fits all constants
to published times (fit/). The forecast holds for a step whose data is on the device.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import HardwareRow, Vendor, hardware_rows, measured_rates
from whichdevice.base.sheets.tpus import CHIPS
from whichdevice.forecast.joint import interval, residual
from whichdevice.forecast.work import LAST, Platform, Work

CONSTANTS = Path(__file__).with_name("constants.json")
SMALL_NOTE = "the host decides: a small step takes as long as the host needs to send it off"
# Log spreads that have too few published times to be fitted, each times the share of the step that it is about.
LAUNCH_SD = 0.6  # of one launch: 2 µs within a CUDA graph, 20 from a busy host
UNFITTED_SD = 0.5  # of classes of work without published times: a factor of another class
CLOCK_SD = 0.2  # of the clock that a chip without published times holds, as the share of operations
BANDWIDTH_SD = 0.1  # of the share of its bandwidth that a chip reaches
MEASURED_SD = 0.08  # of both, where somebody measured large products or copies on the chip
TOGETHER_SD = 0.3  # of collectives
LAUNCH = 4e-6  # seconds in which a host launches a kernel by CUDA: a CPU, where a host's time is measured, has none
MEASURED_HOST_SD = 0.4  # of the host's time on another machine than the one that measured it
# Seconds and log spread of a step that is fed from another machine over the network, as TPU v2 and v3 may be: seven
# workloads of a published v2-8 took 25 to 38 ms; a machine that holds its TPU takes a millisecond or two.
FED, FED_SD, FED_DEVICES = 12e-3, 1.0, ("TPU v2", "TPU v3")
DECODE_SD, LOOP_SD = 0.25, 0.35  # of a generated token, and of a loop of unknown length
RECURRENT_SD = 0.6  # of cuDNN's recurrent layers: 80 % of DeepBench's are 0.6 to 2.9 times their forecasts
# GPUs without published times of their own make, if not NVIDIA's since Pascal: their libraries are others, too.
OTHER_MAKE_SD = 0.5
LAPTOP_SD = 0.3  # of cards whose power and clock the maker of a laptop sets: 35 to 115 W, 1.5 to 2.4 GHz of one chip
USUAL = ("Pascal", "Volta", "Turing", "Ampere", "Ampere RTX", "Ada", "Hopper", "Blackwell", "Blackwell RTX")
# Seconds a kernel by Metal. Large products reach 0.65 to 0.81 of the peak, as on other GPUs (M3 Max, M4, M4 Max:
# zzc0721/torch-performance-test-data); 100 steps of BERT base in float32, of small and large batches, leave 0.1 ms a
# kernel on M2 Ultra and M3 Pro with PyTorch of 2023, and 0.3 ms on M1 Max and M1 Ultra with PyTorch of 2022
# (lucadiliello/pytorch-apple-silicon-benchmarks).
METAL_LAUNCH = 2e-4
# Of RDNA's float32 peak, which counts two operations at once, what libraries can reach: an RX 7900 XTX makes 23 to 27
# of 61 TFLOP/s (zzc0721/torch-performance-test-data, issues 58 and 103).
DUAL_ISSUE = 0.5
# What nobody timed for the fit. Public reports of such steps: 3-D U-Nets take 1.6 to 2 times the forecast; CycleGAN,
# whose instance norms and reflected edges run in float32 on one image, 1.5 to 4; DETR, which matches boxes on the host,
# 1.6 to 2.7; nets of hundreds of tiny kernels 2.8.
UNTESTED_SD: Mapping[str, float] = {
    "3-D convolutions": 0.5,
    "instance norm at batch 1": 0.9,
    "values read by the host": 0.7,
    "hundreds of tiny kernels": 0.8,
    "float8 products": 0.15,
}
BY_HOST = ("values read by the host", "hundreds of tiny kernels")  # the host's time is as uncertain
FULL_POWER, LEAST_POWER = 250.0, 70.0  # watts; from the one down to the other GPUs hold less and less of their clock
MEASURED = "measured"  # the class of chips whose rate somebody measured
# GeForce and cards of rented machines exchange gradients through the host's memory, which all of them share: VGG16 on
# two and eight RTX 3090 trains 1.88 and 1.43 times as fast as on one, so 10.5 GB/s over PCIe 4, while the backward pass
# goes on.
MAX_PCIE = 64e9  # bytes per second in one direction; GPUs with more have links of their own
BRIDGE = 0.33  # of one card's PCIe rate, for all cards together
HIDDEN = 0.65  # of the step's other time, the backward pass, beside which gradients are exchanged
THROUGH_HOST = re.compile(r"(RTX \d{4}\b(?! (Ada|Pro))|GTX|Titan|T4|L4|P4|A2|A16)")
CONFLICTING_POWER = 1000.0  # watts of a GPU whose sources conflict: 1,000 or 1,400 for the B300
LOW_POWER = "low power"
MATRIX, MEMORY = "matrix", "memory"  # rates that are measured
RATES = {"matrix clock": MATRIX, "bandwidth": MEMORY}  # what measures a pace
DENSITY = "density"  # matrix units with more operations a watt hold less of their clock: a factor for each e-fold
DENSE = 0.35e12  # operations per second and watt from which a chip is dense
FORM_SLOPE = 0.2  # log of the measured share by the log of operations a watt: 0.25 between the A100's SXM and PCIe
MAX_OF_PEAK = 0.75  # of its peak, that products and convolutions reach where no measurement shows more
CARD_FORMS = re.compile(r" (PCIe|SXM\d?|NVL|\d+GB|Server|Workstation)\b.*")
SAME_SILICON = {
    "H200": "H100", "GH200": "H100", "A10G": "A10", "GB200": "B200", "RTX 3090 Ti": "RTX 3090",
    "Quadro RTX 6000": "Quadro RTX 8000", "Titan RTX": "Quadro RTX 8000", "RTX 5000 Ada": "L40S",
    "Radeon PRO W7900": "RX 7900 XTX",
}  # fmt: skip


NODE = 8  # GPUs of one machine
# Between such machines: an adapter for each GPU, of 200 or 400 Gbit/s as in NVIDIA's DGX A100, H100 and B200; else one
# of 100 Gbit/s.
NETWORK = {"A100": 200e9, "H100": 400e9, "H200": 400e9, "B200": 400e9, "B300": 800e9}
OTHER_NETWORK = 12.5e9


@dataclass(frozen=True)
class Peaks:
    """The rates of one device per second: operations by precision, bytes of memory and of a link.

    They are the sheet's; where somebody measured products of matrices or copies on the device, or on another form of
    its chip, the share of the sheet's that was reached. `measured` names these rates.
    """

    device: str
    platform: Platform
    operations: Mapping[str, float]
    bandwidth: float
    link: float
    clock: float | None = None
    low_power: float = 0.0  # 1 for a card of LEAST_POWER, 0 from FULL_POWER
    density: float = 0.0  # operations of matrix units per second and watt, by the sheet; 0 where no power is known
    vendor: Vendor = "NVIDIA"
    generation: str = ""
    measured: tuple[str, ...] = ()

    @property
    def through_host(self) -> bool:
        """Whether such cards send each other everything through the host's memory."""
        return self.link <= MAX_PCIE and THROUGH_HOST.match(self.device) is not None

    def rate(self, devices: int) -> float:
        """Bytes per second that each of so many devices sends to the next."""
        link = self.link if self.platform == "tpu" or devices <= NODE else min(self.link, network(self.chip))
        return min(link, self.link * BRIDGE / min(devices, NODE)) if self.through_host else link

    @property
    def chip(self) -> str:
        """The device's silicon: `A100 PCIe 40GB` is an A100."""
        return chip_of(self.device)

    @property
    def chip_class(self) -> str:
        """Chips that hold their clocks in a similar way."""
        if self.platform == "tpu":
            return "TPU"
        if self.vendor != "NVIDIA":
            return self.vendor
        return "desktop" if self.device.startswith(("RTX", "GTX", "Titan")) else "data centre"

    def class_of(self, pace: str) -> str:
        """The class of chips that a pace starts from: those whose same rate was measured, or the chip's."""
        return MEASURED if RATES.get(pace.partition(" of ")[0]) in self.measured else self.chip_class

    @classmethod
    def of(cls, row: HardwareRow, measured: bool = True) -> "Peaks":
        """Return the rates of a row of config/hardware.csv; raises StudyError where a number is missing.

        Without `measured` they are the sheet's, whatever somebody measured.
        """
        tera = {
            "float32": row.fp32_tflops,
            "tf32": row.tf32_tflops or row.fp32_tflops,
            "half": row.half_dense_tflops or row.fp32_tflops,
        }
        if row.kind == "tpu" and row.half_dense_tflops is not None:
            tera |= {"tf32": row.half_dense_tflops / 3, "float32": row.half_dense_tflops / 6}
        missing = [name for name, value in {**tera, "bandwidth": row.mem_bw_gbs}.items() if value is None]
        if missing or (row.kind == "tpu" and row.device not in CHIPS):
            raise StudyError(
                f"hardware.csv: {row.device} has no number for a forecast: {', '.join(missing) or 'clock'}"
            )
        operations, bandwidth = (
            {name: (value or 0.0) * 1e12 for name, value in tera.items()},
            (row.mem_bw_gbs or 0.0) * 1e9,
        )
        if row.kind == "tpu":
            tpu = CHIPS[row.device]
            share = {name: value / tpu.devices for name, value in operations.items()}
            return cls(row.device, "tpu", share, bandwidth / tpu.devices, tpu.link, tpu.clock)
        if row.generation == "RDNA":
            operations |= {name: DUAL_ISSUE * operations[name] for name in ("float32", "tf32")}
        shares = measured_shares(row) if measured else {}
        if MATRIX in shares:
            of_matrix = [name for name in ("half", "tf32") if operations[name] > operations["float32"]]
            operations |= {name: operations[name] * shares[MATRIX] for name in of_matrix}
        # a computer's peaks and power are of all that it has
        watts = row.power_w if row.power_w and row.kind == "gpu" else CONFLICTING_POWER
        low_power = math.log(FULL_POWER / watts) / math.log(FULL_POWER / LEAST_POWER)
        return cls(
            row.device,
            "gpu",
            operations,
            bandwidth * shares.get(MEMORY, 1.0),
            (row.link_gbs or 32.0) * 1e9,
            low_power=1.0 if "Max-Q" in row.device else min(1.0, max(0.0, low_power)),
            density=(row.half_dense_tflops or row.fp32_tflops or 0.0) * 1e12 / watts,
            vendor=row.vendor,
            generation=row.generation,
            measured=tuple(shares),
        )


def measured_shares(row: HardwareRow) -> dict[str, float]:
    """Return the share of the sheet's rates that somebody measured: on the device, or on other forms of its chip.

    A form that feeds its matrix units less power than the measured one reaches less of their peak.
    """
    shares = {}
    for rate, sheet in ((MATRIX, row.half_dense_tflops), (MEMORY, row.mem_bw_gbs)):
        logs: dict[bool, list[float]] = {True: [], False: []}  # whether of the device itself
        for one in measured_rates():
            if one.rate == rate and chip_of(one.device) == chip_of(row.device):
                denser = 0.0
                if rate == MATRIX and one.device != row.device and row.power_w and one.watts:
                    denser = max(0.0, math.log((sheet or one.of_sheet) / row.power_w / (one.of_sheet / one.watts)))
                logs[one.device == row.device].append(math.log(one.value / one.of_sheet) - FORM_SLOPE * denser)
        if (known := logs[True] or logs[False]) and sheet:
            shares[rate] = math.exp(sum(known) / len(known))
    return shares


def chip_of(device: str) -> str:
    """The silicon: `A100 PCIe 40GB` is an A100, `V100 SXM2` a V100, `H200 SXM` an H100."""
    plain = CARD_FORMS.sub("", device)
    return SAME_SILICON.get(plain, plain)


@dataclass(frozen=True)
class StepTime:
    """A step's time with its 80 % interval, in seconds. Nobody ran it."""

    seconds: float  # median: the larger of the device's and the host's time
    low: float
    high: float
    device_time: float  # median, without the host
    software: str
    family: str
    chip: str
    log_sd_shared: float  # of what all devices of a question share
    log_sd_own: float
    host_time: float
    host_log_sd: float
    known_device: bool  # whether published times of this chip were among those that the model was tested on
    known_family: bool
    note: str
    parts: Mapping[str, float]  # device's seconds by class of work


def forecast_step(
    work: Work,
    device: HardwareRow,
    mode: str = "train",
    devices: int = 1,
    host: tuple[float, float] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> StepTime:
    """Forecast one run of a step on a device of config/hardware.csv, on each of `devices` that share it.

    `host` is the host's time in seconds and its log spread, as host.py finds it; None: a typical host's.
    Raises StudyError where the sheet lacks a number, or no published time has this software on such a device.
    """
    peaks = Peaks.of(device)
    software = software_of(work)
    fitted = (constants or read_constants()).get(software)
    if fitted is None:
        raise StudyError(f"{device.device}: no published times of {software}: no forecast")
    parts = seconds_by_class(work, peaks, fitted["factors"])
    family = family_of(work, mode)
    alone = {"widths": fitted["alone"]} if devices == 1 and "alone" in fitted else {}  # of one device (fit/tpu.py)
    residuals = residual(fitted | alone, family, peaks.chip, peaks.chip_class)
    middle = sum(parts.values()) * math.exp(residuals.offset)
    doubts = _doubts(work, parts, fitted, mode, devices)
    shared = math.hypot(residuals.sd_shared, *doubts.values())
    sd_own = math.hypot(residuals.sd_own, *_spreads_of_paces(parts, peaks, fitted))
    if peaks.platform == "gpu" and not _is_of_timed_make(peaks.generation, tuple(fitted["timed"])):
        sd_own = math.hypot(sd_own, OTHER_MAKE_SD)
    if "Laptop" in device.device:
        sd_own = math.hypot(sd_own, LAPTOP_SD)
    its_host = (FED, FED_SD) if device.device in FED_DEVICES else host or typical_host(work, fitted)
    its_host = its_host[0], math.hypot(its_host[1], *(UNTESTED_SD[kind] for kind in work.untested if kind in BY_HOST))
    low, step, high = interval(middle, math.hypot(shared, sd_own), *its_host)
    known_device, known_family = peaks.chip in fitted["timed"], family in fitted["families"] and not work.untested
    return StepTime(
        seconds=step,
        low=low,
        high=high,
        device_time=middle,
        software=software,
        family=family,
        chip=peaks.chip,
        log_sd_shared=shared,
        log_sd_own=sd_own,
        host_time=its_host[0],
        host_log_sd=its_host[1],
        known_device=known_device,
        known_family=known_family,
        note="; ".join(_notes(work, peaks.chip, family, known_device, known_family, doubts, its_host[0] > middle)),
        parts=parts,
    )


@cache
def _is_of_timed_make(generation: str, timed: tuple[str, ...]) -> bool:
    """Whether published times are of such chips, or of their forerunners with the same libraries."""
    return generation in USUAL or any(
        row.generation == generation for row in hardware_rows().values() if chip_of(row.device) in timed
    )


def _share(parts: Mapping[str, float], chosen: Callable[[str], bool]) -> float:
    """The share of the seconds that classes of work take, of all."""
    return sum(seconds for name, seconds in parts.items() if chosen(name)) / (sum(parts.values()) or 1.0)


def _doubts(
    work: Work, parts: Mapping[str, float], fitted: Mapping[str, Any], mode: str, devices: int
) -> dict[str, float]:
    """Return the log spreads that widen the intervals of all devices."""
    share = partial(_share, parts)
    return {
        "launches": LAUNCH_SD * share("launch".__eq__),
        "unfitted": UNFITTED_SD * share(lambda name: like(name, fitted["factors"]) not in fitted["fitted"]),
        "together": TOGETHER_SD if devices > 1 and work.software == "xla" else UNFITTED_SD * share("collective".__eq__),
        "decode": DECODE_SD if mode == "decode" else 0.0,
        "loops": LOOP_SD if work.unknown_loops else 0.0,
        "recurrent": RECURRENT_SD * share(lambda name: "recurrent" in name),
        "untested": math.hypot(*(UNTESTED_SD[kind] for kind in work.untested)),
    }


def _spreads_of_paces(parts: Mapping[str, float], peaks: Peaks, fitted: Mapping[str, Any]) -> list[float]:
    """The log spreads by work at a pace of the device that no published times have."""
    unknown: dict[str, list[str]] = defaultdict(list)
    for name in parts:
        if (pace := pace_of(peaks.chip, name)) and pace not in fitted["factors"]:
            unknown[pace].append(name)
    return [pace_sd(pace, peaks.class_of(pace)) * _share(parts, names.__contains__) for pace, names in unknown.items()]


def _notes(
    work: Work,
    chip: str,
    family: str,
    known_device: bool,
    known_family: bool,
    doubts: Mapping[str, float],
    host_decides: bool,
) -> Iterator[str]:
    missing = [
        *([f"the {chip}"] if not known_device else []),
        *([f"models of {family}"] if not (known_family or work.untested) else work.untested),
        *(["several devices together"] if doubts["together"] > 0.05 else []),
        *(["tokens generated one by one"] if doubts["decode"] else []),
        *(["some of this work"] if doubts["unfitted"] > 0.05 else []),
    ]
    if missing:
        yield f"no published times of {' or '.join(missing)}: wider interval"
    if host_decides:
        yield SMALL_NOTE
    if work.unknown_loops:
        yield f"{work.unknown_loops} loops of unknown length counted once"


def time_share(part: Work, step: Work, device: HardwareRow) -> float:
    """Return the share of a device's time in a step that a part of its kernels takes, run operation by operation."""
    factors = read_constants()["eager"]["factors"]
    times = [sum(seconds_by_class(work, Peaks.of(device), factors).values()) for work in (part, step)]
    return min(1.0, times[0] / times[1]) if times[1] else 0.0


def software_of(work: Work) -> str:
    """Return the name of a work's constants: its software, on a TPU with a note of that."""
    return f"{work.software} on TPU" if work.platform == "tpu" else work.software


def typical_host(work: Work, fitted: Mapping[str, Any]) -> tuple[float, float]:
    """The time in seconds in which a typical host sends a step off, and its log spread."""
    host = fitted["host"]
    return host["step"] + host["kernel"] * work.sent, host["log_sd"]


HYBRID = 0.15  # of the operations, from which on convolutions are more than the patches of an image
FEW_KERNELS = 10  # a single operation rather than a model


def family_of(work: Work, mode: str) -> str:
    """The family of models that a step belongs to, by what forecasts go wrong with: read from its work.

    Networks of images in training are families of their own: their batch norm is not known from other memory.
    """
    family = _family_of(work)
    apart = work.platform == "gpu" and any(name in family for name in ("convolutions", "patches"))
    return f"{family} in training" if apart and mode == "train" else family


def _family_of(work: Work) -> str:
    if work.kernels <= FEW_KERNELS:
        return "few kernels"
    operations: dict[str, float] = defaultdict(float)
    nbytes: dict[str, float] = defaultdict(float)
    for item in work.items:
        kind = item.kind.removesuffix(" backward").removeprefix(LAST)
        operations[kind] += item.operations * item.count
        nbytes[kind] += item.bytes * item.count
    total = sum(operations.values())
    if not total:
        return "memory"
    if nbytes["gather and scatter"] > 0.3 * sum(nbytes.values()):
        return "embeddings"
    convolved = sum(value for kind, value in operations.items() if kind.endswith("convolution"))
    if convolved and operations["attention"]:
        return "convolutions and attention" if convolved > HYBRID * total else "attention on patches"
    if nbytes["depthwise convolution"]:
        return "depthwise and products" if operations["product"] > 0.5 * total else "depthwise convolutions"
    if work.grouped:
        return "grouped convolutions"
    if convolved > operations["product"]:
        return "convolutions"
    if operations["attention"]:
        return "products with fused attention"
    return "products of patches" if convolved else "products"


def at_peaks(work: Work, peaks: Peaks) -> dict[str, float]:
    """Seconds of a step at the peaks of the hardware sheet: operations by kind and precision, bytes by kind.

    "bytes of" a kind are of kernels with operations; "launch" counts kernels, on a TPU without kernels of time steps,
    which "launch of recurrent" counts.
    """
    seconds: dict[str, float] = defaultdict(float)
    for item in work.items:
        if item.kind == "collective":
            seconds["collective"] += item.count * ring_bytes(item.bytes, item.devices) / peaks.rate(item.devices)
            continue
        if item.operations:
            precision = item.precision
            if peaks.operations[precision] <= 1.01 * peaks.operations["float32"]:  # it has no units for the format
                precision = "float32"
            name = item.kind if peaks.platform == "tpu" else f"{item.kind} {precision}"
            seconds[name] += item.count * item.operations / peaks.operations[precision]
        name = "bytes of " * bool(item.operations or item.kind == "recurrent") + item.kind
        seconds[name] += item.count * item.bytes / peaks.bandwidth
    if peaks.platform == "tpu" and work.sent < work.kernels:
        return seconds | {"launch": work.sent, "launch of recurrent": work.kernels - work.sent}
    return seconds | {"launch": work.kernels}


def seconds_by_class(work: Work, peaks: Peaks, factors: Mapping[str, float]) -> dict[str, float]:
    """Seconds by class: time at the peaks × factor, × the chip's clock for operations, or its bandwidth for bytes.

    A class without a factor takes a similar one's. A chip's clock is the one that its form without limits holds.
    """
    parts = {}
    for name, seconds in at_peaks(work, peaks).items():
        pace = pace_of(peaks.chip, name)
        of_class = pace_of(peaks.class_of(pace), name)
        known = factors.get(pace) or factors.get(of_class, 1.0)
        if pace not in factors or not of_class.endswith(MEASURED):  # a measured chip's forms differ in its rates
            known *= limits(pace, of_class, peaks.low_power, peaks.density, factors)
        factor = known * factors[like(name, factors)]
        if name.endswith(PRECISIONS) and pace not in factors and of_class.endswith(peaks.chip_class):
            factor = max(factor, 1 / MAX_OF_PEAK)
        if name == "launch" and peaks.vendor == "Apple":
            factor = METAL_LAUNCH
        parts[name] = seconds * factor
    if peaks.through_host and "collective" in parts:
        others = sum(parts.values()) - parts["collective"]
        parts["collective"] = max(0.0, at_peaks(work, peaks)["collective"] - HIDDEN * others)
    return parts


def log_density(density: float) -> float:
    """Log of operations per second and watt over DENSE, 0 below."""
    return math.log(max(density, DENSE) / DENSE)


def limits(pace: str, of_class: str, low_power: float, density: float, factors: Mapping[str, float]) -> float:
    """How much longer a form of a chip takes for its low power and its dense units.

    Low power counts in part between LEAST_POWER and FULL_POWER, and not where the rate was measured.
    """
    kind = pace.partition(" of ")[0]
    weak = 0.0 if of_class.endswith(MEASURED) else low_power
    return float(
        factors.get(f"{kind} of {LOW_POWER}", 1.0) ** weak
        * factors.get(f"{kind} of {DENSITY}", 1.0) ** log_density(density)
    )


def pace_of(chip: str, name: str) -> str:
    """The name of a chip's factor: how much longer than by the sheet a class of work takes on it; "" for none.

    Operations take longer at the clock that a chip holds under load; matrix units (float16, bfloat16 and TF32) draw
    more power than exact float32. Bytes take longer where a chip reaches less of its bandwidth, or caches less.
    """
    if name.startswith("launch") or name in ("collective", "transfer"):
        return ""
    if name.startswith("bytes of ") or name.removeprefix(LAST) in MOVING:
        return f"bandwidth of {chip}"
    return f"matrix clock of {chip}" if name.endswith(("half", "tf32")) else f"clock of {chip}"


def pace_sd(pace: str, of_class: str = "") -> float:
    """The log spread of such a factor between chips of a class."""
    if of_class.endswith(MEASURED):
        return MEASURED_SD
    return BANDWIDTH_SD if pace.startswith("bandwidth") else CLOCK_SD


def like(name: str, factors: Mapping[str, float]) -> str:
    """The class of `factors` whose factor this class has: itself, or the nearest in what it does."""
    traffic = name.startswith("bytes of ")
    kind, _, precision = name.rpartition(" ") if name.endswith(PRECISIONS) else (name, "", "")
    forward = kind.removesuffix(" backward")
    base = "convolution" if forward.endswith("convolution") else "product"
    wanted = [name, f"{forward} {precision}", forward, *(f"{forward} {other}" for other in PRECISIONS)]
    if LAST in name:
        plain = name.replace(LAST, "")
        wanted += [plain, *([plain.replace(" backward", "")] if traffic else [])]
        return next((candidate for candidate in wanted if candidate in factors), None) or like(plain, factors)
    wanted += [] if traffic or forward in MOVING else [f"{base} {precision}", base]
    return next((candidate for candidate in map(str.strip, wanted) if candidate in factors), "memory")


MOVING = ("memory", "norm", "batch norm", "gather and scatter", "optimizer", "transfer", "collective")
PRECISIONS = ("half", "tf32", "float32")


def network(chip: str) -> float:
    """Bytes per second, in one direction, between nodes of eight GPUs of this kind."""
    return NETWORK.get(chip, OTHER_NETWORK)


def ring_bytes(nbytes: float, devices: int) -> float:
    """Bytes that each link of a ring carries for an all-reduce, the heaviest collective: 2·(n − 1) / n of its size."""
    return 2 * (devices - 1) / devices * nbytes if devices > 1 else 0.0


@cache
def read_constants() -> Mapping[str, Any]:
    """The fitted constants by software; raises StudyError where the file cannot be read."""
    try:
        return dict(json.loads(CONSTANTS.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StudyError(f"{CONSTANTS.name}: cannot be read: {error}; `make forecasts` writes it") from None
