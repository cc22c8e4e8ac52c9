"""Prices in an answer: their spread counts in costs and chances, and an answer knows at which price it turns."""

import random
from dataclasses import replace
from functools import partial

import pytest
from random_works import random_wants, random_work

from whichdevice.decide.decide import Amount, Answer, Wants, decide, price_draws
from whichdevice.decide.rows import FORECAST, Price, Row, Work
from whichdevice.decide.words import lines

HOUR = Amount(3600.0)
DEAR, CHEAP = 2.0, 1.0


def device(name: str, usd: float, step: float = 1.0, shared: float = 0.0, own: float = 0.0) -> Row:
    return Row(
        name, "gpu", FORECAST, step_time=step, chip=name, usd_per_hour=usd, usd_log_sd_shared=shared,
        usd_log_sd_own=own, rented=True, price=Price("on_demand", "Cloud"),
    )  # fmt: skip


def answer(*rows: Row, wants: Wants | None = None, amount: Amount = HOUR) -> Answer:
    return decide(Work("net", "net.py", "train", 1, None, "image", 1.0, None, None, rows), wants or Wants(), amount)


def test_the_interval_of_a_cost_has_that_of_its_price() -> None:
    [option] = answer(device("A", DEAR, own=0.5)).options
    row = option.row
    assert option.usd == pytest.approx(DEAR, rel=1e-4) and option.seconds_low == option.seconds_high
    assert option.usd_low == pytest.approx(row.usd_per_hour_low, rel=0.02)
    assert option.usd_high == pytest.approx(row.usd_per_hour_high, rel=0.02)


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


def test_the_price_at_which_an_answer_turns_is_in_its_first_lines() -> None:
    a, b = device("A", CHEAP, own=0.1), device("B", 2.4, 0.5)
    found = answer(a, b, amount=Amount(36000.0))
    assert found.pick and found.pick.device == "A" and found.price_turns[0].above == "B"
    said = [line for line in lines(found) if line.startswith("Cheapest while")]
    usd = f"{found.price_turns[0].usd_per_hour:.2f}"
    assert said == [f"Cheapest while an A costs less than USD {usd} an hour (now 0.88 to 1.14); above, a B."]
    far = answer(a, device("B", 24.0, 0.5), amount=Amount(36000.0))
    assert far.price_turns and not any(line.startswith("Cheapest while") for line in lines(far))


def pick_at(found: Answer, name: str, usd: float) -> str | None:
    wants = replace(found.wants, prices={**found.wants.prices, name: usd})
    pick = decide(found.work, wants, found.amount).pick
    return pick and pick.device


def test_the_turning_price_is_that_of_brute_force() -> None:
    """At 1 % less the device is the pick, at 1 % more it is not, and nowhere between today's price and there."""
    chance, tried = random.Random(5), 0
    while tried < 50:
        wants, amount = random_wants(chance)
        work = random_work(chance)
        found = decide(work, wants, amount)
        for turn in found.price_turns[:3]:
            pick = partial(pick_at, found, turn.device)
            now = next(option.row.usd_per_hour for option in found.options if option.device == turn.device)
            assert found.pick and now
            assert pick(turn.usd_per_hour * 0.99) == turn.device != pick(turn.usd_per_hour * 1.01), tried
            assert pick(turn.usd_per_hour * 1.0002) == turn.above, tried
            if turn.device == found.pick.device:
                steps = [now * (turn.usd_per_hour * 0.99 / now) ** (step / 8) for step in range(8)]
                assert {pick(usd) for usd in steps} == {turn.device}, tried
        tried += bool(found.price_turns)


def test_numbers_of_one_device_have_one_price_a_device() -> None:
    """On a day when the card is dear two of it are, too, and its price decides nothing between them."""
    one, two = (
        replace(device(name, usd, step, 0.2, 0.4), target="A100", chip="A100")
        for name, usd, step in (("A100", 2.0, 1.0), ("2 × A100", 4.0, 0.51))
    )
    first, second = price_draws([one, two])
    assert second == pytest.approx(2 * first)
    assert not answer(one, two, wants=Wants(), amount=Amount(36000.0)).price_turns
