"""Prices of devices: offers of clouds by the hour, free ones with their limits, cards to buy, electricity, start-up.

config/prices.csv has a row for each offer. The price of one device is the instance's divided by its number of devices;
`devices.<name>.usd_per_hour` in a study wins over it. config/cards.csv has what cards cost that people buy.
"""

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from whichdevice.files import CONFIG

PRICES = CONFIG / "prices.csv"
CARDS = CONFIG / "cards.csv"
PRICES_VARIABLE = "WHICHDEVICE_PRICES"
# US dollars for a kilowatt-hour: the average of US homes in 2026 by the EIA's Short-Term Energy Outlook of December
# 2025 (as read by consumeraffairs.com).
USD_PER_KWH = 0.18
# Minutes from `rent` to the first step: a machine of GCP in 2.7, of AWS in 2.3, of Azure in 5.8 (skypilot-org/skypilot
# pull requests 1092 and 1111, issue 3695), then packages in 4.5 (pull request 3073: 271 seconds).
START_UP_MINUTES = 7.0
NOTEBOOK_MINUTES = 1.0  # until a free notebook runs its first line, assumed: the frameworks are installed there
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Kind = Literal["on_demand", "spot", "free"]


class Offer(BaseModel):
    """One offer of a whole instance with `count` devices, on the day `date`.

    `offer` is `on_demand`, `spot` (the cloud may take it away) or `free` (nobody is promised it). `session_hours` and
    `week_hours` are how long it runs at a time and in a week, None where that has no limit.
    """

    model_config = ConfigDict(frozen=True)

    provider: str
    instance: str
    device: str
    count: PositiveInt
    region: str = ""
    offer: Kind
    instance_usd_per_hour: Amount
    session_hours: PositiveFloat | None = None
    week_hours: PositiveFloat | None = None
    date: date
    source: str

    @model_validator(mode="after")
    def _costs_something_unless_free(self) -> "Offer":
        if (self.offer == "free") != (self.instance_usd_per_hour == 0):
            raise ValueError(f"offer is {self.offer}, and instance_usd_per_hour {self.instance_usd_per_hour:g}")
        return self

    @property
    def usd_per_hour(self) -> float:
        """US dollars for an hour of one device."""
        return self.instance_usd_per_hour / self.count

    @property
    def gpu_only(self) -> bool:
        """Whether the machine that the GPU is added to costs extra."""
        return "GPU only" in self.instance

    @property
    def words(self) -> str:
        """Who offers it where, when that was read, and where."""
        place = f"{self.provider} {self.instance}, {self.region}" if self.region else f"{self.provider} {self.instance}"
        return f"{place}, {self.date}; {self.source}"


class Card(BaseModel):
    """The price of a card that people buy, in US dollars."""

    model_config = ConfigDict(frozen=True)

    device: str
    usd: PositiveFloat
    date: date
    source: str


def cheapest(offers: Sequence[Offer], kind: Kind = "on_demand") -> Offer | None:
    """The cheapest offer of a kind for one device; one without its machine only where there is no other."""
    fitting = [offer for offer in offers if offer.offer == kind]
    return min(fitting, key=lambda offer: (offer.gpu_only, offer.usd_per_hour), default=None)


def price_sheet(named: str | None = None) -> Path:
    """The price sheet: the one that the config names, else $WHICHDEVICE_PRICES, else config/prices.csv."""
    return Path(named or os.environ.get(PRICES_VARIABLE) or PRICES)
