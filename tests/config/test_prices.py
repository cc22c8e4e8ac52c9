"""The price of a device: the market of the providers that a user may rent from."""

from datetime import date, timedelta

import pytest
from beside import beside

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import Kind, Offer, market

ROWS = hardware_rows()
TODAY = date.today()


def offer(provider: str, usd: float, days: int = 0, kind: Kind = "on_demand", instance: str = "machine") -> Offer:
    return Offer(
        provider=provider, instance=instance, device="T4", count=1, offer=kind, instance_usd_per_hour=usd,
        date=TODAY - timedelta(days), source="a list",
    )  # fmt: skip


THREE = [offer("A", 1.0), offer("B", 2.0), offer("C", 4.0)]
MARKETS = beside(__file__)


@pytest.mark.parametrize("rule", MARKETS)
def test_the_price_of_a_device(rule: str) -> None:
    case = MARKETS[rule]
    offers = [*THREE[: case.get("first", 3)], *(offer(**more) for more in case.get("more", []))]
    found = market(offers, providers=case.get("named", []))
    assert found is not None
    assert [found.usd_per_hour, found.lowest.provider, found.providers] == case["price"]


def test_nobody_asks_a_price() -> None:
    assert market([]) is market(THREE, providers=["D"]) is market(THREE, "spot") is None


def test_a_price_spreads_between_providers_and_with_its_age() -> None:
    one, wide, old = market(THREE[:1]), market(THREE), market([offer(name, 2.0, 365) for name in "ABC"])
    named, aged = market(THREE, providers=["A"]), market([offer("A", 1.0, 365)], providers=["A"])
    assert one and wide and old and named and aged
    assert wide.low < one.low * 2 < 2 < wide.high and wide.low * wide.high == pytest.approx(4)
    assert (named.log_sd_shared, named.log_sd_own) == (0, 0), "somebody who rents there knows the price"
    assert aged.log_sd_own == pytest.approx(0.3) and aged.log_sd_shared == 0
    assert old.log_sd_own > 0.3 and wide.log_sd_shared > wide.log_sd_own > 0


def test_the_sheet_has_several_providers_of_the_devices_that_people_rent() -> None:
    offers = [one for row in ROWS.values() for one in row.offers]
    assert len(offers) >= 400
    markets = {name: row.market() for name, row in ROWS.items()}
    several = {name for name, found in markets.items() if found and found.providers >= 4}
    assert len(several) >= 20 and {"RTX 4090", "H100 SXM", "A100 SXM 80GB", "L40S", "MI300X", "T4"} <= several
    h100 = markets["H100 SXM"]
    assert h100 is not None and h100.low < 2.3 < h100.usd_per_hour < h100.high
