"""Look up a device in the hardware sheet: its row, its price for an hour, and its peaks.

Prices are applied when tables are made and are in no record: they change, and nothing is measured again when they do.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.base.sheets.tpus import CHIPS, devices_of
from whichdevice.decide.prices import hour_of
from whichdevice.study.config.model import Study
from whichdevice.study.tables.base import Sources

Sheet = Mapping[str, HardwareRow]
SECONDS_AN_HOUR = 3600.0
# The half_type that a format needs for the 16-bit peak.
HALF_TYPES = {"bfloat16": ("bf16",), "float16": ("fp16", "bf16")}  # tensor cores with bfloat16 do float16 as fast


def sheet_row(device: str, device_name: str | None, study: Study, sheet: Sheet) -> str | None:
    """Return the row of a device, or None where it has none or the config names another device's row."""
    if wrong_row(device, device_name, study, sheet):
        return None
    return _configured(device, study, sheet) or _recognised(device_name, sheet)


def device_rows(sources: Sources) -> dict[str, str | None]:
    """Return the sheet's row of each of the study's devices, named by the config or recognised by the device's name."""
    named = sources.table("summary").dropna(subset=["device_name"]).groupby("device")["device_name"].first()
    return {name: sheet_row(name, named.get(name), sources.study, sources.sheet) for name in sources.study.devices}


def wrong_row(device: str, device_name: str | None, study: Study, sheet: Sheet) -> str | None:
    """Why the row that the config names is not the device's, and what to set.

    Only a name that fits another row says so: clouds hide names, and one that fits no row may be of the named one.
    """
    named, recognised = _configured(device, study, sheet), _recognised(device_name, sheet)
    if named is None or recognised is None or not (fits := sheet[named].matches):
        return None
    if re.search(fits, device_name or ""):
        return None
    words = f"devices.{device}.hardware is {named}, and the device is a {recognised}"
    return f"{words}: set devices: {{{device}: {{hardware: {recognised}}}}}"


def _configured(device: str, study: Study, sheet: Sheet) -> str | None:
    named = study.devices[device].hardware if device in study.devices else None
    return named if named in sheet else None


def _recognised(device_name: str | None, sheet: Sheet) -> str | None:
    if not device_name:
        return None
    fitting = (name for name, row in sheet.items() if row.matches and re.search(row.matches, device_name))
    return next(fitting, None)


class HourlyPrice(NamedTuple):
    """US dollars for an hour of the whole device, all its replicas, with the source; or why there is no price."""

    usd_per_hour: float | None
    source: str


def prices_of(rows: pd.DataFrame, study: Study, sheet: Sheet) -> pd.DataFrame:
    """Columns `usd_per_hour` and `price` of rows with columns `device` and `device_name`."""
    keys = list(zip(rows["device"].astype(str), rows["device_name"].fillna("").astype(str), strict=True))
    known = {key: price_of(*key, study, sheet) for key in set(keys)}
    prices = pd.DataFrame([known[key] for key in keys], rows.index, ["usd_per_hour", "price"])
    return prices.astype({"usd_per_hour": "float64"})


def price_of(device: str, device_name: str | None, study: Study, sheet: Sheet) -> HourlyPrice:
    """The price of one of the study's devices: the config's, else the market's on demand for its row of the sheet."""
    if device not in study.devices:
        return HourlyPrice(None, f"no price: the config has no device {device}")
    settings, place = study.devices[device], f"devices.{device}.usd_per_hour"
    if settings.usd_per_hour is not None:
        return HourlyPrice(settings.usd_per_hour, f"config: {place}")
    if wrong := wrong_row(device, device_name, study, sheet):
        return HourlyPrice(None, f"no price: {wrong}")
    name = sheet_row(device, device_name, study, sheet)
    if name is None:
        return HourlyPrice(None, f"no price: set {place}")
    used = math.ceil(settings.replicas / devices_of(name))
    machine = _machine(used, name)
    chips = machine * math.ceil(used / machine)
    priced = hour_of(sheet[name], chips * devices_of(name))
    if priced.usd_per_hour is None:
        return HourlyPrice(None, f"no price: the price sheet has none for {name}; set {place}")
    rented = "" if chips == used else f", rented {machine} at a time"
    amount = f"{chips} × {priced.usd_per_hour / chips:g} USD{rented}"
    return HourlyPrice(priced.usd_per_hour, f"sheet: {name}, {amount} ({priced.price.source})")


def _machine(chips: int, hardware: str) -> int:
    """Chips of the smallest machine that holds so many, else of the largest one."""
    machines = CHIPS[hardware].machines if hardware in CHIPS else (1,)
    return min((size for size in machines if size >= chips), default=max(machines))


class SheetPeak(NamedTuple):
    """Peaks by the sheet, in TFLOP/s and GB/s, None where it names none; `row` is the sheet's, with its source."""

    row: str | None = None
    tflops: float | None = None
    gigabytes: float | None = None
    source: str | None = None


def sheet_peak(row_name: str | None, product: str, replicas: int, cores: int | None, sheet: Sheet) -> SheetPeak:
    """Peaks of `replicas` replicas for products of one format.

    A replica on one of a chip's two cores has half of the chip. A processor's operations count the physical
    `cores` used; its bandwidth counts the whole sockets that hold them, as some cores of a socket have no share.
    """
    if row_name is None:
        return SheetPeak()
    row = sheet[row_name]
    has_half = row.half_type.startswith(HALF_TYPES.get(product, ("unknown",)))
    peak = {"float32": row.fp32_tflops, "tf32": row.tf32_tflops}.get(
        product, row.half_dense_tflops if has_half else None
    )
    share = memories = replicas / devices_of(row_name)
    if row.kind == "cpu":
        share = cores / row.cores if cores and row.cores else math.nan
        memories = 1 if math.isnan(share) else math.ceil(share)
    return SheetPeak(
        row_name,
        None if peak is None or math.isnan(share) else peak * share,
        None if row.mem_bw_gbs is None else row.mem_bw_gbs * memories,
        row.spec_source,
    )
