"""The hardware sheet, written by people: what a device can do, with sources. Each row has its offers of prices.csv.

config/hardware.csv has a row for each device: peaks, memory, power, and what a driver says of a GPU. A row has its
offers, the machines that it comes with and, where people buy it, its card.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator

from whichdevice.base.errors import StudyError, did_you_mean
from whichdevice.base.files import CONFIG
from whichdevice.base.sheets.machines import MACHINES, Cores, Machine, cores
from whichdevice.base.sheets.prices import CARDS, Amount, Card, Kind, Market, Offer, cheapest, market, price_sheets
from whichdevice.base.sheets.tpus import devices_of

HARDWARE = CONFIG / "hardware.csv"
MEASURED = CONFIG / "measured_rates.csv"
Software = Literal["xla", "eager"]
Vendor = Literal["NVIDIA", "AMD", "Intel", "Apple", "Google", ""]
GENERATIONS: tuple[tuple[str, str, Vendor], ...] = (  # by how their compute capability begins
    ("10.", "Blackwell", "NVIDIA"),
    ("12.", "Blackwell RTX", "NVIDIA"),
    ("9.", "Hopper", "NVIDIA"),
    ("8.9", "Ada", "NVIDIA"),
    ("8.6", "Ampere RTX", "NVIDIA"),
    ("8.", "Ampere", "NVIDIA"),
    ("7.5", "Turing", "NVIDIA"),
    ("7.", "Volta", "NVIDIA"),
    ("6.", "Pascal", "NVIDIA"),
    ("3.", "Kepler", "NVIDIA"),
    ("gfx9", "CDNA", "AMD"),
    ("gfx", "RDNA", "AMD"),
    ("acm", "Alchemist", "Intel"),
)
# Of a computer's memory, what its GPU may take: Metal's recommendedMaxWorkingSetSize is 0.66 of 32 GB, 0.75 of 64 and
# 0.78 of 48 (torch.mps.recommended_max_memory in public reports). PyTorch takes more, and is slow then: macOS swaps.
UNIFIED = 0.75

_Row = TypeVar("_Row", bound=BaseModel)
_OfDevice = TypeVar("_OfDevice", Offer, Card, Machine)


class HardwareRow(BaseModel):
    """A device of the sheet; a `unified` one is a computer whose GPU shares its memory.

    Peaks are dense, in TFLOP/s; `half_type` names the 16-bit formats that reach theirs.
    `mem_gb` is what the vendor says, `mem_bytes` what the driver reports, as `compute_capability` (of AMD the target of
    its compiler, of Intel the name of its architecture), `sms` and `clock_ghz`. `link_gbs` are bytes from one GPU to
    the others in one direction, by links of their own or by PCIe with 16 lanes (16, 32, 64), `skypilot` the name by
    which SkyPilot rents it, `matches` a pattern of the names that drivers give it. `also` holds other names, separated
    by ";".
    """

    model_config = ConfigDict(frozen=True)

    device: str
    kind: Literal["cpu", "gpu", "tpu", "unified"]
    also: str = ""
    matches: str = ""
    fp32_tflops: Amount | None = None
    tf32_tflops: Amount | None = None
    half_dense_tflops: Amount | None = None
    half_type: str = ""
    mem_gb: Amount | None = None
    mem_bw_gbs: Amount | None = None
    link_gbs: Amount | None = None
    power_w: Amount | None = None
    cores: PositiveInt | None = None
    compute_capability: Annotated[str, Field(pattern=r"^(\d+\.\d+|gfx[0-9a-f]+|acm-g\d+)$")] | None = None
    sms: PositiveInt | None = None
    clock_ghz: Amount | None = None
    mem_bytes: PositiveInt | None = None
    skypilot: str = ""
    spec_source: str = ""
    offers: tuple[Offer, ...] = ()
    machines: tuple[Machine, ...] = ()
    card: Card | None = None

    @field_validator("matches")
    @classmethod
    def _is_pattern(cls, text: str) -> str:
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"is no pattern: {' '.join(str(error).split())}") from error
        return text

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which a user can ask for the device."""
        return (self.device, *(name for name in self.also.split(";") if name))

    @property
    def generation(self) -> str:
        """Return the family of the chip: `Hopper`, `Ada`, `CDNA`, `TPU`, `CPU`, `Apple`, or `other`."""
        if self.kind in ("cpu", "tpu"):
            return self.kind.upper()
        known = (name for begin, name, _ in GENERATIONS if (self.compute_capability or "").startswith(begin))
        return next(known, "Apple" if self.device.startswith("Apple") else "other")

    @property
    def vendor(self) -> Vendor:
        """Who makes it; empty where the sheet does not tell."""
        if self.kind == "tpu":
            return "Google"
        if self.generation == "Apple":
            return "Apple"
        return next((vendor for _, name, vendor in GENERATIONS if name == self.generation), "")

    @property
    def software(self) -> tuple[Software, ...]:
        """The software that a forecast can be of: XLA has no backend for Apple's GPUs that anybody maintains."""
        if self.kind == "cpu":
            return ()
        return ("eager",) if self.vendor == "Apple" else ("xla", "eager")

    @property
    def comes_alone(self) -> bool:
        """Whether there is one of it in its machine: a computer with a GPU, or a laptop."""
        return self.kind == "unified" or "Laptop" in self.device

    @property
    def memory(self) -> float:
        """Bytes of memory of one device: of a core where a TPU's chip is two, of a computer what its GPU may take."""
        if self.mem_bytes is not None:
            return float(self.mem_bytes)
        share = UNIFIED if self.kind == "unified" else 1 / devices_of(self.device)
        return (self.mem_gb or 0.0) * 2**30 * share  # the sheets' GB of HBM are GiB

    @property
    def cheapest(self) -> Offer | None:
        """The cheapest offer on demand."""
        return self.cheapest_of("on_demand")

    def cheapest_of(self, kind: Kind) -> Offer | None:
        """The cheapest offer of a kind."""
        return cheapest(self.offers, kind)

    def market(self, kind: Kind = "on_demand", providers: Sequence[str] = ()) -> Market | None:
        """The device's price: of all providers, or of those that are named."""
        return market(self.offers, kind, providers)

    def host_cores(self, devices: int, offer: Literal["rented", "free"] = "rented") -> Cores:
        """The cores of the machine with so many devices."""
        return cores(self.machines, offer).of(max(1, devices // devices_of(self.device)))


def hardware_rows(path: Path = HARDWARE, prices: Path | None = None) -> dict[str, HardwareRow]:
    """The rows of the sheet by device, each with its offers of the price sheet (see `price_sheets`).

    Raises StudyError when a sheet cannot be read, lacks a column or has a value that is none, or when a price is for a
    device that the hardware sheet does not have.
    """
    rows = {row.device: row for _, row in _read(path, HardwareRow)}
    offers: dict[str, list[Offer]] = {name: [] for name in rows}
    for sheet in price_sheets(None if prices is None else str(prices)):
        for offer in _of_known_devices(sheet, Offer, rows, path):
            offers[offer.device].append(offer)
    cards = {card.device: card for card in _of_known_devices(CARDS, Card, rows, path)}
    machines: dict[str, list[Machine]] = {name: [] for name in rows}
    for machine in _of_known_devices(MACHINES, Machine, rows, path):
        machines[machine.device].append(machine)
    for name, row in rows.items():
        update = {"offers": tuple(offers[name]), "machines": tuple(machines[name]), "card": cards.get(name)}
        rows[name] = row.model_copy(update=update)
    return rows


class MeasuredRate(BaseModel):
    """A line of config/measured_rates.csv: how fast large products of matrices or copies of memory were on a device.

    `value` and `of_sheet`, the sheet's figure, are TFLOP/s in 16 bits (`matrix`) or GB/s (`memory`); `watts` are the
    sheet's, None where its sources conflict.
    """

    model_config = ConfigDict(frozen=True)

    device: str
    rate: Literal["matrix", "memory"]
    value: Amount
    of_sheet: Amount
    watts: Amount | None = None
    source: str


@cache
def measured_rates() -> tuple[MeasuredRate, ...]:
    """Return the rates that others measured; raises StudyError where the sheet cannot be read."""
    return tuple(rate for _, rate in _read(MEASURED, MeasuredRate))


def _of_known_devices(
    sheet: Path, kind: type[_OfDevice], rows: dict[str, HardwareRow], path: Path
) -> Iterator[_OfDevice]:
    for where, offer in _read(sheet, kind):
        if offer.device not in rows:
            raise StudyError(f"{where}: {offer.device!r} is not in {path.name}{did_you_mean(offer.device, list(rows))}")
        yield offer


def _read(path: Path, kind: type[_Row]) -> Iterator[tuple[str, _Row]]:
    """Rows of a sheet with where they are; a row that ends early is empty from there."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            sheet = csv.DictReader(file, restkey="further", restval="")
            columns = [name for name in kind.model_fields if name not in ("offers", "machines", "card")]
            if missing := [name for name in columns if name not in (sheet.fieldnames or ())]:
                raise StudyError(f"{path.name}: no column {missing[0]}")
            for row in sheet:
                where = f"{path.name}, line {sheet.line_num}"
                yield where, _checked({name: row[name] for name in columns if row[name]}, kind, where)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"cannot read {path.name}: {error}") from error


def _checked(values: dict[str, str], kind: type[_Row], where: str) -> _Row:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        fault, column = first["msg"].removeprefix("Value error, "), "".join(map(str, first["loc"][:1]))
        if first["type"] == "missing":
            raise StudyError(f"{where}: {column} is empty") from error
        if first["type"] == "value_error":
            raise StudyError(f"{where}: {f'{column} ' if column else ''}{fault}") from error
        value = str(first["input"])[:40]
        raise StudyError(f"{where}: {column} is {value!r}: {fault[:1].lower()}{fault[1:]}") from error
