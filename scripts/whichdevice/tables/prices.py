"""What an hour of a device costs, from the config or the hardware sheet, and which of the two said so.

Prices are applied when tables are made and stand in no record: they change, and nothing is measured again when they do.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from whichdevice.config.model import Study
from whichdevice.devices.tpu import CHIPS, V2

SMALLEST_CHIPS = {"TPU v2": 4, "TPU v3": 4, "TPU v4": 4, "TPU v5p": 4}  # of a machine that can be rented
Sheet = Mapping[str, Mapping[str, str]]
SECONDS = 3600.0


class Price(NamedTuple):
    """US dollars for an hour of the whole device, all its replicas, and where that is said; or why there is none."""

    usd_per_hour: float | None
    source: str


def price_of(name: str, study: Study, sheet: Sheet) -> Price:
    """The price of one of the study's devices: the config's, where it is empty the sheet's, else none."""
    if name not in study.devices:
        return Price(None, f"no price: the config has no device {name}")
    device = study.devices[name]
    if device.usd_per_hour is not None:
        return Price(device.usd_per_hour, f"config: devices.{name}.usd_per_hour")
    missing = f"set devices.{name}.usd_per_hour"
    if device.hardware is None:
        return Price(None, f"no price: {missing}")
    row = sheet.get(device.hardware, {})
    if not (each := row.get("usd_hour_per_chip")):
        return Price(None, f"no price: the sheet has none for {device.hardware}; {missing}")
    used = math.ceil(device.replicas / cores_of(device.hardware))
    smallest = SMALLEST_CHIPS.get(device.hardware, 1)
    chips = smallest * math.ceil(used / smallest)
    rented = "" if chips == used else f", rented {smallest} at a time"
    amount = f"{chips} × {float(each):g} USD{rented}"
    told = f"sheet: {device.hardware}, {amount} ({row['price_scope']}; {row['price_source']})"
    return Price(chips * float(each), told)


def cores_of(hardware: str) -> int:
    """Replicas that one chip carries: the two cores of an older TPU count apart, and are rented together."""
    return next((chip.cores for chip in (V2, *CHIPS.values()) if hardware == chip.name), 1)
