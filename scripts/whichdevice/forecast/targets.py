"""Devices that have a forecast: rows of config/hardware.csv. Importable without JAX.

A device is what a framework sees: one GPU, a core on TPU v2, v3 and 7x (half a chip's memory and bandwidth), a whole
chip of the others.

    target = find_target("V100 SXM2")           # by its row, an alias, or most of its name
    target = find_target("A100 SXM 40GB", 8)    # eight of them in one machine
    target = find_target("v5e-2x2")             # a TPU slice
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import HardwareRow, Software, hardware_rows
from whichdevice.base.sheets.prices import price_sheet
from whichdevice.base.sheets.tpus import CHIPS, TOPOLOGIES, Topology

GPU_COUNTS = (1, 2, 4, 8)  # of one machine
NODES = (16, 32, 64, 128, 256, 512)  # of several with eight each
DESKTOP = ("RTX", "GTX", "Titan", "RX", "Arc")
NO_FACTS = {"also", "matches", "skypilot", "spec_source", "offers", "machines", "card"}
NO_XLA = "XLA has no backend for it that anybody maintains; PyTorch models have forecasts"
# What else a user must know of a device, by generation.
NOTES = {
    "Kepler": "CUDA 12 and later do not run on Kepler; PyTorch and JAX of 2022 do",
    "Apple": "PyTorch runs by Metal (MPS); the memory is what the GPU may take of the most that was sold",
    "Alchemist": "PyTorch runs by XPU, JAX by Intel's extension for OpenXLA",
}
FILLER = {
    "nvidia", "tesla", "geforce", "google", "cloud", "gpu", "tpu", "amd", "instinct", "radeon", "core", "tensor",
    "intel", "arc", "apple",
}  # fmt: skip
OTHER_CARD = {"ti", "super", "laptop", "mobile"}
# What people can have today, from free or cheap to dear: offered by several clouds or at home in many rooms.
FORECAST_DEVICES = (
    "T4", "L4", "A10G", "RTX 3090", "RTX 4090", "RTX 5090", "L40S", "A100 SXM 80GB", "H100 SXM", "H200",
    "TPU v5e", "v5e-2x4", "TPU v6e",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """One or several devices of one kind that run a program together."""

    device: str  # row of config/hardware.csv
    devices: int  # GPUs, TPU cores (v2, v3) or TPU chips
    row: HardwareRow = field(compare=False, repr=False)
    slice: Topology | None = field(default=None, compare=False)  # of a TPU; the number of devices tells which

    @property
    def kind(self) -> str:
        """`gpu` or `tpu`: what computes."""
        return "tpu" if self.row.kind == "tpu" else "gpu"

    @property
    def rented_together(self) -> bool:
        """Whether clouds rent so many with a network between: desktop cards come in one machine."""
        return self.devices <= GPU_COUNTS[-1] or not self.device.startswith(DESKTOP)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what else a user must know of the device."""
        return (NOTES[self.row.generation],) if self.row.generation in NOTES else ()

    @property
    def label(self) -> str:
        """How a person names it: `T4`, `8 × T4`, `4 × TPU v5e` (chips)."""
        return self.device if self.chips == 1 else f"{self.chips} × {self.device}"

    @property
    def chips(self) -> int:
        """GPUs, or chips of a TPU slice."""
        return self.devices if self.slice is None else self.slice.chips

    @property
    def memory(self) -> float:
        """Bytes of memory of one device."""
        return self.row.memory

    def available(self, reserve: float) -> float:
        """Bytes of it that are left to a program: on a GPU all but `reserve`, on a TPU what libtpu leaves."""
        if self.kind == "tpu":
            return CHIPS[self.device].available * 2**30
        return self.memory - reserve * (self.row.kind == "gpu")

    @property
    def facts(self) -> dict[str, Any]:
        """The part of its row that a record depends on, as JSON has it: neither names, sources nor prices."""
        return self.row.model_dump(mode="json", exclude=NO_FACTS)

    @property
    def mixed(self) -> str:
        """The mixed precision of its half format: mixed_bfloat16 where it has that, else mixed_float16."""
        return "mixed_float16" if self.refusal("mixed_bfloat16", self.row.software[-1]) else "mixed_bfloat16"

    def refusal(self, precision: str, software: Software = "xla") -> str | None:
        """Return why it lacks products in this number format, or the software, in one line; None where it has both."""
        if software not in self.row.software:
            return NO_XLA
        if self.kind == "tpu":
            known = precision in ("float32", "mixed_bfloat16", "bfloat16")
            return None if known else f"{self.device} has no {precision}; take float32 or mixed_bfloat16"
        if precision == "tf32" and self.row.tf32_tflops is None:
            return f"{self.device} has no TF32 products; take float32 or mixed_float16"
        if "bfloat16" in precision and self.row.half_type.startswith(("fp16", "none")):
            return f"{self.device} has no bfloat16 products; take mixed_float16"
        return None


def software_of(module: str) -> Software:
    """Return what a forecast of this workload's step is of: PyTorch's own kernels, else a program of XLA."""
    from whichdevice.models.framework import TORCH
    from whichdevice.models.loading import Model

    return "eager" if Model.read(module).framework == TORCH else "xla"


def target_rows() -> dict[str, HardwareRow]:
    """Rows of the sheet that a forecast can be for, by device."""
    return _target_rows(price_sheet())


@cache
def _target_rows(prices: Path) -> dict[str, HardwareRow]:
    return {name: row for name, row in hardware_rows(prices=prices).items() if row.software}


GROUPS: dict[str, Callable[[HardwareRow], bool]] = {
    "all": lambda row: True,
    "gpu": lambda row: row.kind == "gpu",
    "mac": lambda row: row.vendor == "Apple",
    "tpu": lambda row: row.kind == "tpu",
    "desktop": lambda row: row.card is not None or row.device.startswith(DESKTOP),
    "cloud": lambda row: row.cheapest is not None,
    "free": lambda row: row.cheapest_of("free") is not None,
}


def names_tpu(name: str) -> bool:
    """Return whether a name is the group of TPUs, or a TPU or slice of one."""
    name = name.strip().casefold()
    return name == "tpu" or name.startswith(("tpu ", "v2-", "v3-", "v4-", "v5", "v6e"))


def devices_in(names: Iterable[str], software: Software = "xla") -> list[str]:
    """Return names of devices, with the members of each group (`tpu`, `free`) in its place."""
    devices: list[str] = []
    for name in names:
        group = GROUPS.get(name.casefold())
        if group is None:
            devices.append(name)
            continue
        rows = [row for row in target_rows().values() if software in row.software and group(row)]
        devices += [row.device for row in rows]
        if name.casefold() in ("free", "tpu"):  # of a TPU also the slice that is free
            devices += [
                topology.name
                for row in rows
                for topology in _slices(row.device)
                if any(offer.offer == "free" and offer.count == topology.chips > 1 for offer in row.offers)
            ]
    return list(dict.fromkeys(devices))


def targets_in(
    names: Iterable[str], counts: Sequence[int] = (1,), find: "Callable[[str, int | None], Target] | None" = None
) -> list[Target]:
    """Return each device in each number: so many GPUs, or a TPU's slice of so many chips; else its smallest slice.

    A slice that is named has its own number alone.
    """
    find = find or find_target
    by_label: dict[str, Target] = {}
    for name in names:
        first = find(name, None)
        if first.row.comes_alone:
            targets = [first]
        elif first.kind == "gpu":
            targets = [find(name, None if count == 1 else count) for count in counts]
        elif _plain(name) in {_plain(known) for topology in TOPOLOGIES.values() for known in topology.names}:
            targets = [first]
        else:
            slices = {topology.chips: topology.devices for topology in _slices(first.device)}
            targets = [find(name, slices[count]) for count in counts if count in slices] or [first]
        by_label |= {target.label: target for target in targets if target.label not in by_label}
    return list(by_label.values())


def all_targets(devices: int = 1, software: Software = "xla") -> list[Target]:
    """Every target of the sheet: so many GPUs, and the smallest slice of each TPU that has as many devices."""
    rows = [name for name, row in target_rows().items() if software in row.software]
    return [target for name in rows if (target := _target(name, devices)) is not None]


def usual_precision(target: Target, precision: str = "mixed", bfloat16: str = "mixed_bfloat16") -> str:
    """Return the number format on a device: mixed, as people train there, is of 16 bits where these have own units.

    Single is what frameworks make of float32: TF32 where a GPU has it; a TPU multiplies in bfloat16. `bfloat16` is what
    a model takes where mixed is of that format.
    """
    if precision == "single" and target.kind == "gpu":
        return "tf32" if target.row.tf32_tflops else "float32"
    if precision not in ("mixed", "single"):
        return precision
    row = target.row  # a P100 has faster float16, but XLA no attention in it there
    faster = (row.half_dense_tflops or 0.0) > (row.fp32_tflops or 0.0) and "no tensor cores" not in row.half_type
    if target.kind != "tpu" and not faster:
        return "float32"
    return bfloat16 if (precision, target.mixed) == ("mixed", "mixed_bfloat16") else target.mixed


def find_target(name: str, devices: int | None = None) -> Target:
    """The target that a person means: row of the sheet, alias, TPU slice, or words that only one row has.

    `devices` is None for one GPU or the smallest slice. Raises StudyError with the nearest names, or with all that the
    words fit.
    """
    wanted = _plain(name)
    for topology in TOPOLOGIES.values():
        if wanted in map(_plain, topology.names):
            if devices not in (None, 1, topology.devices):
                raise StudyError(f"{name}: the slice has {topology.devices} devices, not {devices}")
            return Target(topology.chip, topology.devices, target_rows()[topology.chip], topology)
    row = _row_named(name)
    target = _target(row, devices or 1)
    if target is None or (devices is not None and target.devices != devices and devices != 1):
        sheet = target_rows()[row]
        counts = [tpu_slice.devices for tpu_slice in _slices(row)] if sheet.kind == "tpu" else _gpu_counts(sheet)
        raise StudyError(f"{row}: {devices} devices are no machine that is known; {', '.join(map(str, counts))} are")
    return target


def other_targets(name: str) -> list[str]:
    """Other rows that a short name fits: `A100` means the one of 80 GB, and three more are A100s."""
    try:
        chosen = find_target(name).device
    except StudyError:
        return []
    words = _words(name)
    if not words or _plain(name) == _plain(chosen):
        return []
    return [row for row in target_rows() if row != chosen and words <= _words(row)]


def _target(row: str, devices: int) -> Target | None:
    """So many GPUs of a row, or its smallest slice of at least that many devices; None where there is none."""
    sheet = target_rows()[row]
    if sheet.kind != "tpu":
        return Target(row, devices, sheet) if devices in _gpu_counts(sheet) else None
    chosen = next((tpu_slice for tpu_slice in _slices(row) if tpu_slice.devices >= devices), None)
    return Target(row, chosen.devices, sheet, chosen) if chosen is not None else None


def _gpu_counts(row: HardwareRow) -> Sequence[int]:
    """The numbers in which a GPU comes, in one machine or in several."""
    return (1,) if row.comes_alone else (*GPU_COUNTS, *NODES)


def _slices(row: str) -> list[Topology]:
    """The slices of a TPU, the smallest first."""
    return [topology for topology in TOPOLOGIES.values() if topology.chip == row]


def _row_named(name: str) -> str:
    """Return the row by its name or an alias, by the name that a driver gives, else by its words."""
    rows = target_rows()
    if name in rows:
        return name
    row_of = {_plain(alias): row for row in rows for alias in rows[row].names}
    if (exact := row_of.get(_plain(name))) is not None:
        return exact
    fitting = [row for row in rows if re.search(rows[row].matches or "$^", name, re.IGNORECASE)]
    if not fitting and (words := _words(name)):
        known = {row: [_words(alias) for alias in rows[row].names] for row in rows}
        memory = {row: {f"{rows[row].mem_gb:g}gb"} for row in rows}
        fitting = [row for row in rows if words in known[row]]
        fitting = fitting or [row for row in rows if any(_fit(words, of_name | memory[row]) for of_name in known[row])]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise StudyError(f"device {name!r}: which one? {', '.join(fitting)}")
    near = get_close_matches(_plain(name), row_of, n=3, cutoff=0.4)
    names = list(dict.fromkeys(row_of[plain] for plain in near)) or ["T4", "A100 SXM 80GB", "H100 SXM", "TPU v5e"]
    if any(_plain(name) in map(_plain, row.names) for row in hardware_rows().values()):
        raise StudyError(f"device {name!r}: forecasts are of GPUs and TPUs, and this is a CPU; it can be measured")
    raise StudyError(f"unknown device {name!r}; nearest: {', '.join(names)}")


def _fit(words: set[str], name: set[str]) -> bool:
    """Whether the words are of that name, and it is no other card: a GTX 1080 is no GTX 1080 Ti."""
    return words <= name and not (name - words) & OTHER_CARD


@cache
def _plain(name: str) -> str:
    return "".join(re.findall(r"[a-z0-9+]+", re.sub("|".join(FILLER), " ", name.casefold())))


def _words(name: str) -> set[str]:
    """Return the words of a name, without makers; `16gb`, `16 GB` and `-16` are the same, `RTX5000` is two words."""
    text = re.sub(r"(\d+)\s*(gb|gib)\b", r"\1gb", name.casefold())
    text = re.sub(r"(?<=[-_ ])(\d{2,3})(?=[-_ ]|$)", r"\1gb", text)
    text = re.sub(r"\bsxm\d\b", "sxm", text)
    text = re.sub(r"\b([gr]tx)(?=\d)", r"\1 ", text)
    return set(re.findall(r"[a-z0-9+]+", text)) - FILLER


def environment() -> dict[str, str]:
    """Variables with which JAX lowers a step on this CPU; to be set before it is imported."""
    return {
        "JAX_PLATFORMS": "cpu",
        "KERAS_BACKEND": "jax",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "-1",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
    }
