"""Prices in an answer: their spread counts in costs and chances."""

from dataclasses import replace

import pytest

from whichdevice.decide.decide import Amount, Answer, Wants, decide, price_draws
from whichdevice.decide.rows import FORECAST, AskedWork, Price, Row

HOUR = Amount(3600.0)
DEAR, CHEAP = 2.0, 1.0


def device(name: str, usd: float, step: float = 1.0, shared: float = 0.0, own: float = 0.0) -> Row:
    return Row(
        name, "gpu", FORECAST, step_time=step, chip=name, usd_per_hour=usd, usd_log_sd_shared=shared,
        usd_log_sd_own=own, rented=True, price=Price("on_demand", "Cloud"),
    )  # fmt: skip


def answer(*rows: Row, wants: Wants | None = None, amount: Amount = HOUR) -> Answer:
    work = AskedWork("net", "net.py", "train", 1, None, "image", 1.0, None, None, rows)
    return decide(work, wants or Wants(), amount)


def test_the_interval_of_a_cost_has_that_of_its_price() -> None:
    [option] = answer(device("A", DEAR, own=0.5)).options
    row = option.row
    assert option.usd == pytest.approx(DEAR, rel=1e-4) and option.seconds_low == option.seconds_high
    assert (option.usd_low, option.usd_high) == pytest.approx(row.usd_ends, rel=0.02)


SPREADS = [  # of the price of both: what they share, what is their own
    ("prices are exact", 0.0, 0.0, 1.0, 1.0),
    ("the dear provider is dear for both", 0.5, 0.0, 1.0, 1.0),
    ("each has a price of its own", 0.0, 0.5, 0.6, 0.9),
]


@pytest.mark.parametrize(("rule", "shared", "own", "low", "high"), SPREADS, ids=[one[0] for one in SPREADS])
def test_an_answer_is_as_sure_as_its_prices(rule: str, shared: float, own: float, low: float, high: float) -> None:
    found = answer(device("A", CHEAP, shared=shared, own=own), device("B", 1.4, 1.0, shared, own))
    assert found.pick and found.pick.device == "A" and low <= (found.pick.sure or 0) <= high
    assert bool(found.pick.regret) == bool(own)


def test_a_price_of_the_user_is_exact_and_holds_for_several() -> None:
    rows = device("A", CHEAP, own=0.5), replace(device("4 × A", 4.0, own=0.5), devices=4), device("B", DEAR)
    found = answer(*rows, wants=Wants(prices={"A": 3.0}))
    usd = {option.device: (option.usd_low, option.usd, option.usd_high) for option in found.options}
    assert usd == {"A": (3.0, 3.0, 3.0), "4 × A": (12.0, 12.0, 12.0), "B": (2.0, 2.0, 2.0)}
    assert found.pick and found.pick.device == "B"


def test_numbers_of_one_device_have_one_price_a_device() -> None:
    """On a day when the card is dear two of it are, too, and its price decides nothing between them."""
    one, two = (
        replace(device(name, usd, step, 0.2, 0.4), target="A100", chip="A100")
        for name, usd, step in (("A100", 2.0, 1.0), ("2 × A100", 4.0, 0.51))
    )
    first, second = price_draws([one, two])
    assert second == pytest.approx(2 * first)
