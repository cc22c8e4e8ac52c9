"""Costs of an hour of a device: the only place that takes a price, for trainings, servers, tables and `rent`.

The user's own price is exact. Else a rented device has the market's, of all its providers with a spread; a computer to
buy costs a share of its price and its electricity, this machine electricity alone.
"""

import math
from dataclasses import dataclass
from typing import Literal

from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.base.sheets.prices import USD_PER_KWH, Z80, Market, age_days
from whichdevice.base.sheets.tpus import devices_of
from whichdevice.decide.energy import MACHINE_WATTS, Power

YEARS_HOURS = 3 * 8766.0  # over which a computer is paid
PriceKind = Literal["on_demand", "spot", "free", "electricity", "buy", "study", "user", "unknown"]


@dataclass(frozen=True)
class Price:
    """Who asks what an hour of a device costs, and where that was read."""

    kind: PriceKind
    provider: str = ""
    source: str = ""  # where it was read, and when; or why there is none
    watts: float | None = None  # electricity: of the whole machine
    metered: bool = False
    lowest: float | None = None  # USD an hour at `provider`, where the price is the median of several
    providers: int = 1
    age: int | None = None  # days since the newest offer was read
    bought_usd: float | None = None  # of a computer to buy


@dataclass(frozen=True, kw_only=True)
class Priced:
    """The price of an hour of a machine, all of its devices together."""

    usd_per_hour: float | None = None  # the median
    usd_log_sd_shared: float = 0.0  # of the logarithm of the price: a provider is dear for all of its devices
    usd_log_sd_own: float = 0.0
    price: Price = Price("unknown")

    @property
    def usd_ends(self) -> tuple[float | None, float | None]:
        """The ends of the price's 80 % interval."""
        if self.usd_per_hour is None:
            return None, None
        half = Z80 * math.hypot(self.usd_log_sd_shared, self.usd_log_sd_own)
        return self.usd_per_hour * math.exp(-half), self.usd_per_hour * math.exp(half)


def hour_of(row: HardwareRow, devices: int = 1, kind: Literal["on_demand", "spot"] = "on_demand") -> Priced:
    """Return the price of an hour of so many devices of a row of the sheet; a price is of a TPU's chip."""
    if row.kind == "unified":
        return _bought(row)
    market = row.market(kind)
    return Priced() if market is None else _at_market(market, math.ceil(devices / devices_of(row.device)), kind)


def _at_market(market: Market, chips: int, kind: PriceKind) -> Priced:
    lowest = market.lowest
    price = Price(
        kind, lowest.provider, market.words, lowest=lowest.usd_per_hour * chips, providers=market.providers,
        age=age_days(market.newest),
    )  # fmt: skip
    return Priced(
        usd_per_hour=market.usd_per_hour * chips, usd_log_sd_shared=market.log_sd_shared,
        usd_log_sd_own=market.log_sd_own, price=price,
    )  # fmt: skip


def _bought(row: HardwareRow) -> Priced:
    if row.card is None:
        return Priced()
    usd = row.card.usd / YEARS_HOURS + (row.power_w or MACHINE_WATTS["cpu"]) / 1000 * USD_PER_KWH
    return Priced(usd_per_hour=usd, price=Price("buy", source=row.card.source, bought_usd=row.card.usd))


def free_of(row: HardwareRow, devices: int) -> tuple[Priced, float | None, float | None] | None:
    """Return the free machine with so many devices that gives the longest week, with hours of a session and a week.

    It is one GPU of the machine, or a TPU's whole slice.
    """
    free = [
        offer for offer in row.offers
        if offer.offer == "free" and (offer.count == devices or (row.kind == "gpu" and devices == 1))
    ]  # fmt: skip
    if not free:
        return None
    best = max(free, key=lambda offer: offer.week_hours or 0.0)
    names = " or ".join(dict.fromkeys(offer.provider for offer in free))
    return Priced(usd_per_hour=0.0, price=Price("free", names, best.words)), best.session_hours, best.week_hours


def electricity(power: Power) -> Priced:
    """Return the price of a machine that is here."""
    price = Price("electricity", watts=power.total, metered=power.evidence == "measured")
    return Priced(usd_per_hour=power.total / 1000 * USD_PER_KWH, price=price)


def own_price(priced: Priced, usd: float) -> Priced:
    """Return the user's own price in place of another; it has no spread."""
    kind = priced.price.kind if priced.price.kind in ("spot", "free") else "user"
    return Priced(usd_per_hour=usd, price=Price(kind))
