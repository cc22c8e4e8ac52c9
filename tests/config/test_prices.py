"""The price of a device: the market of the providers that a user may rent from."""

from datetime import date, timedelta

import pytest

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
MARKETS = [
    ("the median of providers", THREE, (), 2.0, "A", 3),
    ("a provider counts once, by its cheapest", [*THREE, offer("C", 3.0), offer("A", 9.0)], (), 2.0, "A", 3),
    ("an offer of a provider that was read long before is past", [*THREE, offer("A", 0.5, 100)], (), 2.0, "A", 3),
    ("another instance that was read shortly before still counts", [*THREE, offer("A", 0.5, 20)], (), 2.0, "A", 3),
    ("an old offer counts where it is a provider's newest", [*THREE[:2], offer("C", 4.0, 300)], (), 2.0, "A", 3),
    ("of named providers the lowest", THREE, ("b", "C"), 2.0, "B", 1),
    ("a machine that may be taken away is another market", [*THREE, offer("D", 0.1, kind="spot")], (), 2.0, "A", 3),
    ("a GPU without its machine does not count", [*THREE, offer("D", 0.1, instance="GPU only")], (), 2.0, "A", 3),
    ("unless there is nothing else", [offer("D", 0.1, instance="GPU only")], (), 0.1, "D", 1),
]


@pytest.mark.parametrize(("rule", "offers", "named", "usd", "lowest", "count"), MARKETS)
def test_the_price_of_a_device(rule, offers, named, usd, lowest, count) -> None:
    found = market(offers, providers=named)
    assert found is not None and (found.usd_per_hour, found.lowest.provider, found.providers) == (usd, lowest, count)


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
