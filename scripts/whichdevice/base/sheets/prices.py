"""Prices of devices: offers of clouds by the hour, free ones with their limits, cards to buy, electricity, start-up.

config/prices.csv has a row for each offer, with the day on which it held. The price of one device is the instance's
divided by its number of devices; `market` makes one of all providers', with its spread. `devices.<name>.usd_per_hour`
in a study wins over it. config/cards.csv has what cards cost that people buy.
"""

import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from whichdevice.base.files import CONFIG

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
START_UP_SD = 0.4  # of the logarithm of both: those three spread by 0.23, and three are few
# Between 28 providers of 25 devices prices spread by 0.54 (standard deviation of the logarithm), by 0.29 of it within a
# provider: the rest is a provider's own for all of its devices. Between May and October 2026 about half of the prices
# changed, those by 1.30 times at the median.
Z80 = 1.2816  # standard deviations on each side that hold 80 %
SHARED_VARIANCE = 0.7  # of the variance between providers
USUAL_SPREAD, USUAL_WEIGHT = 0.5, 3.0  # which counts as so many providers
YEARLY_CHANGE = 0.3
SAME_READING = timedelta(30)  # an older offer of the same provider no longer counts
OLD_DAYS = 60  # from which on an answer says how old its prices are
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
        region = f", {self.region}" if self.region else ""
        return f"{self.provider} {self.instance}{region}, {self.date}; {self.source}"


class Card(BaseModel):
    """The price of a card that people buy, in US dollars."""

    model_config = ConfigDict(frozen=True)

    device: str
    usd: PositiveFloat
    date: date
    source: str


@dataclass(frozen=True)
class Market:
    """The price of an hour of one device: what providers ask of whom the user may rent it."""

    usd_per_hour: float  # the median of their prices; where the user names providers, the lowest
    log_sd_shared: float  # of the logarithm of the price: a provider is dear, or not, for all of its devices
    log_sd_own: float  # what is the device's own, and what changed since the offers were read
    lowest: Offer
    providers: int  # whose prices count
    newest: date

    @property
    def low(self) -> float:
        """The lower end of the 80 % interval."""
        return self.usd_per_hour * math.exp(-Z80 * math.hypot(self.log_sd_shared, self.log_sd_own))

    @property
    def high(self) -> float:
        """The upper end of the 80 % interval."""
        return self.usd_per_hour**2 / self.low

    @property
    def words(self) -> str:
        """Who asks what, and where the lowest price was read."""
        if self.providers == 1:
            return self.lowest.words
        return f"median of {self.providers} providers; lowest {self.lowest.usd_per_hour:g} USD: {self.lowest.words}"


def cheapest(offers: Sequence[Offer], kind: Kind = "on_demand") -> Offer | None:
    """Return the cheapest offer of a kind that holds today."""
    return min(offers_of_today(offers, kind), key=lambda offer: offer.usd_per_hour, default=None)


def market(offers: Sequence[Offer], kind: Kind = "on_demand", providers: Sequence[str] = ()) -> Market | None:
    """Return the market of one device, of these providers alone where some are named; None where nobody offers it."""
    named = {name.casefold() for name in providers}
    asked = [offer for offer in offers_of_today(offers, kind) if not named or offer.provider.casefold() in named]
    if not asked:
        return None
    lowest = min(asked, key=lambda offer: offer.usd_per_hour)
    usd = lowest.usd_per_hour if named else statistics.median(offer.usd_per_hour for offer in asked)
    newest = max(offer.date for offer in asked)
    exact = named or lowest.device.startswith("TPU")  # TPUs have one provider
    log_sd = 0.0 if exact else spread([offer.usd_per_hour for offer in asked])
    log_sd_own = math.hypot(math.sqrt(1 - SHARED_VARIANCE) * log_sd, YEARLY_CHANGE * math.sqrt(age_days(newest) / 365))
    return Market(usd, math.sqrt(SHARED_VARIANCE) * log_sd, log_sd_own, lowest, 1 if named else len(asked), newest)


def offers_of_today(offers: Sequence[Offer], kind: Kind) -> list[Offer]:
    """Return the cheapest offer of each provider, of its newest readings; a GPU alone only where nobody has more."""
    fitting = [offer for offer in offers if offer.offer == kind]
    machines = [offer for offer in fitting if not offer.gpu_only] or fitting
    newest = {offer.provider: offer.date for offer in sorted(machines, key=lambda offer: offer.date)}
    held: dict[str, list[Offer]] = {}
    for offer in machines:
        if newest[offer.provider] - offer.date <= SAME_READING:
            held.setdefault(offer.provider, []).append(offer)
    return [min(offers_of_one, key=lambda offer: offer.usd_per_hour) for offers_of_one in held.values()]


def spread(offered: Sequence[float]) -> float:
    """Return the standard deviation of the logarithm between offers; of few the usual one counts, too."""
    squares = len(offered) * statistics.pvariance(map(math.log, offered))
    return math.sqrt((squares + USUAL_WEIGHT * USUAL_SPREAD**2) / (len(offered) - 1 + USUAL_WEIGHT))


def age_days(day: date) -> int:
    """Return how many days ago a day was."""
    return max((date.today() - day).days, 0)


def price_sheet(named: str | None = None) -> Path:
    """The price sheet: the one that the config names, else $WHICHDEVICE_PRICES, else config/prices.csv."""
    return Path(named or os.environ.get(PRICES_VARIABLE) or PRICES)


def price_sheets(named: str | None = None) -> list[Path]:
    """Return the price sheet and, where nobody named one, the user's newer offers."""
    sheet, newer = price_sheet(named), users_offers()
    usual = sheet == PRICES and PRICES_VARIABLE not in os.environ
    return [sheet, newer] if usual and newer.is_file() else [sheet]


def users_offers() -> Path:
    """The sheet of offers that `whichdevice prices --update` keeps."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whichdevice" / "prices.csv"
