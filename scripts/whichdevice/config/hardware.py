"""The hardware sheet and the price sheet, both written by people: what a device can do and what it costs, with sources.

config/hardware.csv has a row for each device: peaks, memory and power, and for each GPU what XLA's compiler must know
of it. config/prices.csv has a row for each offer of a cloud. The price of one device is the instance's price divided
by its number of devices; `devices.<name>.usd_per_hour` in a study wins over both.
"""

import csv
import os
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator

from whichdevice.errors import StudyError, did_you_mean
from whichdevice.files import CONFIG

HARDWARE = CONFIG / "hardware.csv"
PRICES = HARDWARE.with_name("prices.csv")
PRICES_VARIABLE = "WHICHDEVICE_PRICES"
CUDA_COLUMNS = (
    "compute_capability", "sms", "fp32_per_sm", "clock_ghz", "mem_bytes", "l2_bytes", "shared_per_sm_bytes",
    "shared_optin_bytes", "threads_per_sm", "registers_per_sm", "mem_bw_gbs", "fp32_tflops",
)  # fmt: skip

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Row = TypeVar("_Row", bound=BaseModel)


class Price(BaseModel):
    """One offer of a cloud: US dollars for an hour of a whole instance with `count` devices, on the day `date`."""

    model_config = ConfigDict(frozen=True)

    provider: str
    instance: str
    device: str
    count: PositiveInt
    region: str = ""
    usd_per_hour_on_demand: Amount | None = None
    usd_per_hour_spot: Amount | None = None
    date: date
    source: str

    @property
    def on_demand(self) -> float | None:
        """US dollars for an hour of one device."""
        return None if self.usd_per_hour_on_demand is None else self.usd_per_hour_on_demand / self.count

    @property
    def spot(self) -> float | None:
        """US dollars for an hour of one device that the cloud may take away."""
        return None if self.usd_per_hour_spot is None else self.usd_per_hour_spot / self.count

    @property
    def gpu_only(self) -> bool:
        """Whether the machine that the GPU is added to costs extra."""
        return "GPU only" in self.instance

    @property
    def words(self) -> str:
        """Who offers it where, when that was read, and where."""
        return f"{self.provider} {self.instance}, {self.region}, {self.date}; {self.source}"


class HardwareRow(BaseModel):
    """A device of the sheet. Peaks are dense, in TFLOP/s; `half_type` names the 16-bit formats that reach theirs.

    `mem_gb` is what the vendor says, `mem_bytes` what the driver reports. `also` holds other names, separated by ";".
    """

    model_config = ConfigDict(frozen=True)

    device: str
    kind: Literal["cpu", "gpu", "tpu"]
    also: str = ""
    matches: str = ""
    fp32_tflops: Amount | None = None
    tf32_tflops: Amount | None = None
    half_dense_tflops: Amount | None = None
    half_type: str = ""
    mem_gb: Amount | None = None
    mem_bw_gbs: Amount | None = None
    power_w: Amount | None = None
    power_term: str = ""
    cores: PositiveInt | None = None
    compiler: Literal["cuda", "libtpu"] | None = None
    compute_capability: Annotated[str, Field(pattern=r"^\d+\.\d+$")] | None = None
    sms: PositiveInt | None = None
    fp32_per_sm: PositiveInt | None = None
    clock_ghz: Amount | None = None
    mem_bytes: PositiveInt | None = None
    l2_bytes: PositiveInt | None = None
    shared_per_sm_bytes: PositiveInt | None = None
    shared_optin_bytes: PositiveInt | None = None
    threads_per_sm: PositiveInt | None = None
    registers_per_sm: PositiveInt | None = None
    spec_source: str = ""
    compiler_source: str = ""
    status: str = ""
    offers: tuple[Price, ...] = ()

    @field_validator("matches")
    @classmethod
    def _is_pattern(cls, text: str) -> str:
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"is no pattern: {' '.join(str(error).split())}") from error
        return text

    @model_validator(mode="after")
    def _can_be_compiled_for(self) -> "HardwareRow":
        if self.compiler == "cuda" and (missing := [name for name in CUDA_COLUMNS if getattr(self, name) is None]):
            raise ValueError(f"compiler is cuda, and {missing[0]} is empty")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which a user can ask for the device."""
        return (self.device, *(name for name in self.also.split(";") if name))

    @property
    def cheapest(self) -> Price | None:
        """The cheapest offer on demand for one device; one without its machine only where there is no other."""
        priced = [offer for offer in self.offers if offer.on_demand is not None]
        return min(priced, key=lambda offer: (offer.gpu_only, offer.on_demand or 0.0), default=None)


def hardware_rows(path: Path = HARDWARE, prices: Path | None = None) -> dict[str, HardwareRow]:
    """The rows of the sheet by device, each with its offers of the price sheet (see `price_sheet`).

    Raises StudyError when a sheet cannot be read, lacks a column or has a value that is none, or when a price is for a
    device that the hardware sheet does not have.
    """
    rows = {row.device: row for _, row in _read(path, HardwareRow)}
    offers: dict[str, list[Price]] = {}
    sheet = price_sheet() if prices is None else prices
    for where, offer in _read(sheet, Price):
        if offer.device not in rows:
            raise StudyError(f"{where}: {offer.device!r} is not in {path.name}{did_you_mean(offer.device, list(rows))}")
        offers.setdefault(offer.device, []).append(offer)
    return {name: row.model_copy(update={"offers": tuple(offers.get(name, ()))}) for name, row in rows.items()}


def price_sheet(named: str | None = None) -> Path:
    """The price sheet: the one that the config names, else $WHICHDEVICE_PRICES, else config/prices.csv."""
    return Path(named or os.environ.get(PRICES_VARIABLE) or PRICES)


def hardware_named(name: str, rows: dict[str, HardwareRow]) -> HardwareRow:
    """The device of that name or other name, in any case; raises StudyError with the nearest names."""
    wanted = " ".join(name.lower().split())
    for row in rows.values():
        if wanted in (known.lower() for known in row.names):
            return row
    known = [each for row in rows.values() for each in row.names]
    raise StudyError(f"{name} is not in config/hardware.csv{did_you_mean(name, known)}")


def _read(path: Path, kind: type[_Row]) -> Iterator[tuple[str, _Row]]:
    """Rows of a sheet with where they are; a row that ends early is empty from there."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            sheet = csv.DictReader(file, restkey="further", restval="")
            columns = [name for name in kind.model_fields if name != "offers"]
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
        what = first["msg"].removeprefix("Value error, ")
        column = ".".join(str(part) for part in first["loc"][:1])
        if first["type"] == "missing":
            raise StudyError(f"{where}: {column} is empty") from error
        if first["type"] == "value_error":
            raise StudyError(f"{where}: {f'{column} ' if column else ''}{what}") from error
        raise StudyError(f"{where}: {column} is {str(first['input'])[:40]!r}: {what[:1].lower()}{what[1:]}") from error
