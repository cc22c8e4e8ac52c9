"""What an hour of a device costs, from the config or the price sheet, and which of the two it was.

Prices are applied when tables are made and stand in no record: they change, and nothing is measured again when they do.
"""

import math
from typing import NamedTuple

import pandas as pd

from whichdevice.config.model import Study
from whichdevice.machine.tpu import CHIPS, V2
from whichdevice.tables.sheet_rows import Sheet, sheet_row, wrong_row

SECONDS = 3600.0
_CHIPS = {chip.name: chip for chip in (V2, *CHIPS.values())}


class HourlyPrice(NamedTuple):
    """US dollars for an hour of the whole device, all its replicas, and where that is said; or why there is none."""

    usd_per_hour: float | None
    source: str


def prices_of(rows: pd.DataFrame, study: Study, sheet: Sheet) -> pd.DataFrame:
    """Columns `usd_per_hour` and `price` of rows with columns `device` and `device_name`."""
    keys = list(zip(rows["device"].astype(str), rows["device_name"].fillna("").astype(str), strict=True))
    known = {key: price_of(*key, study, sheet) for key in set(keys)}
    found = pd.DataFrame([known[key] for key in keys], rows.index, ["usd_per_hour", "price"])
    return found.astype({"usd_per_hour": "float64"})


def price_of(device: str, device_name: str | None, study: Study, sheet: Sheet) -> HourlyPrice:
    """The price of one of the study's devices: the config's, else the cheapest on demand of its row of the sheet."""
    if device not in study.devices:
        return HourlyPrice(None, f"no price: the config has no device {device}")
    settings, own = study.devices[device], f"devices.{device}.usd_per_hour"
    if settings.usd_per_hour is not None:
        return HourlyPrice(settings.usd_per_hour, f"config: {own}")
    if wrong := wrong_row(device, device_name, study, sheet):
        return HourlyPrice(None, f"no price: {wrong}")
    name = sheet_row(device, device_name, study, sheet)
    if name is None:
        return HourlyPrice(None, f"no price: set {own}")
    offer = sheet[name].cheapest
    if offer is None or offer.on_demand is None:
        return HourlyPrice(None, f"no price: the price sheet has none for {name}; set {own}")
    used = math.ceil(settings.replicas / cores_of(name))
    machine = _machine(used, name)
    chips = machine * math.ceil(used / machine)
    rented = "" if chips == used else f", rented {machine} at a time"
    amount = f"{chips} × {offer.on_demand:g} USD{rented}"
    return HourlyPrice(chips * offer.on_demand, f"sheet: {name}, {amount} ({offer.words})")


def cores_of(hardware: str) -> int:
    """Replicas that one chip carries: the two cores of an older TPU count apart, and are rented together."""
    return _CHIPS[hardware].cores if hardware in _CHIPS else 1


def _machine(chips: int, hardware: str) -> int:
    """Chips of the smallest machine that holds so many, else of the largest one."""
    machines = _CHIPS[hardware].machines if hardware in _CHIPS else (1,)
    return min((size for size in machines if size >= chips), default=max(machines))
