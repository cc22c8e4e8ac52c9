"""The price sheet: what clouds ask for a device, which sheet is read, and which offer counts as a device's price.

config/prices.csv has a row for each offer of a cloud. The price of one device is the instance's price divided by its
number of devices; `devices.<name>.usd_per_hour` in a study wins over it.
"""

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from whichdevice.files import CONFIG

PRICES = CONFIG / "prices.csv"
PRICES_VARIABLE = "WHICHDEVICE_PRICES"
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


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


def cheapest(offers: Sequence[Price]) -> Price | None:
    """The cheapest offer on demand for one device; one without its machine only where there is no other."""
    priced = [offer for offer in offers if offer.on_demand is not None]
    return min(priced, key=lambda offer: (offer.gpu_only, offer.on_demand or 0.0), default=None)


def price_sheet(named: str | None = None) -> Path:
    """The price sheet: the one that the config names, else $WHICHDEVICE_PRICES, else config/prices.csv."""
    return Path(named or os.environ.get(PRICES_VARIABLE) or PRICES)
