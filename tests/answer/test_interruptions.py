"""Machines that are taken away and sessions that end: expected hours, how often to save, what is hopeless."""

from dataclasses import replace

import numpy as np
import pytest

from whichdevice.decide import Answer, Wants
from whichdevice.decide.decide import Amount, decide
from whichdevice.decide.interruptions import HOUR, Interruptions
from whichdevice.decide.rows import FORECAST, Price, Row, Work
from whichdevice.decide.words import lines

RUNS = 20_000
PUBLIC = Interruptions(rate=1 / 8, save=60.0, load=600.0)  # an account of 48 h of training, a machine lasts 8 h
DAYS = 48 * HOUR
DEAR = Row(
    "A", "gpu", FORECAST, step_time=1.0, chip="A", usd_per_hour=3.0, rented=True, price=Price("on_demand", "Cloud"),
    memory_needed=20e9, start_time=420.0,
)  # fmt: skip
SPOT = replace(DEAR, usd_per_hour=1.0, price=Price("spot", "Cloud"))
FREE = replace(
    DEAR, card="T", chip="T", usd_per_hour=0.0, price=Price("free", "Colab"), session_hours=12.0, start_time=60.0
)


def simulated(machine: Interruptions, work: float, interval: float, runs: int = RUNS) -> np.ndarray:
    """Billed seconds of so many runs, one event after another, from a fixed seed."""
    chance = np.random.default_rng(0)
    left, loading, billed = np.full(runs, float(work)), np.zeros(runs), np.zeros(runs)
    while (going := left > 0).any():
        part = np.minimum(left, interval)
        length = loading + part + np.where(left > interval, machine.save, 0.0)
        ends = chance.exponential(HOUR / machine.rate, runs)
        done = going & (ends >= length)
        billed += np.where(going, np.minimum(ends, length), 0.0)
        left -= np.where(done, part, 0.0)
        loading = np.where(done, 0.0, machine.load)
    return billed


def answer(*rows: Row, hours: float, wants: Wants | None = None) -> Answer:
    work = Work("net", "net.py", "train", 1, None, "image", 1.0, None, None, rows)
    return decide(work, wants or Wants(deadline=300 * 24 * HOUR), Amount(hours * HOUR))


MACHINES = [(0.05, 24, 15.0, 480.0), (0.125, 48, 60.0, 600.0), (0.3, 10, 120.0, 900.0), (1.0, 6, 30.0, 300.0)]


@pytest.mark.parametrize(("rate", "hours", "save", "load"), MACHINES)
def test_the_formula_is_the_mean_of_a_simulation(rate: float, hours: float, save: float, load: float) -> None:
    machine = Interruptions(rate, save, load)
    runs = simulated(machine, hours * HOUR, machine.interval)
    [mean], [sd] = machine.billed(np.array([hours * HOUR]))
    assert mean == pytest.approx(runs.mean(), rel=0.02)
    assert sd == pytest.approx(np.log(runs).std(), rel=0.2)


@pytest.mark.parametrize(("rate", "hours", "save", "load"), MACHINES)
def test_no_other_interval_takes_noticeably_less_time(rate: float, hours: float, save: float, load: float) -> None:
    machine, work = Interruptions(rate, save, load), np.array([100 * hours * HOUR])
    [best], _ = machine.billed(work)
    others = [machine.billed(work, machine.interval * times)[0][0] for times in (0.5, 0.8, 1.25, 2.0)]
    assert min(others) > 0.999 * best


def test_the_public_account_of_two_days_with_and_without_checkpoints() -> None:
    """With checkpoints it counts hours at the price on demand, of which a spot machine's is a third."""
    few = simulated(PUBLIC, DAYS, PUBLIC.interval) / HOUR / 3
    low, high = np.quantile(few, [0.1, 0.9])
    assert low <= 18 <= high or abs(few.mean() - 18) < 1
    many = simulated(PUBLIC, DAYS, np.inf, 2000) / HOUR
    low, high = np.quantile(many, [0.1, 0.9])
    assert low <= 3200 <= high
    assert PUBLIC.billed(np.array([DAYS]), np.inf)[0][0] / HOUR == pytest.approx(3200, rel=0.05)


def test_an_answer_says_how_often_to_save_and_what_is_hopeless_without() -> None:
    asked = answer(DEAR, SPOT, hours=100, wants=Wants(deadline=300 * 24 * HOUR, spot=True))
    [sentence] = [line for line in lines(asked) if "taken away" in line]
    start, end = sentence.split(", without checkpoints it takes ")
    assert start == "It may be taken away at any moment, 5 % an hour (assumed): save every 31 min"
    assert end.startswith("about 100 days")
    spot = next(option for option in asked.options if option.row.spot)
    assert spot.seconds and 100 * HOUR < spot.seconds < 110 * HOUR and (spot.unsaved or 0) > 2900 * HOUR
    assert 4 < spot.times_taken < 6


def test_a_spot_machine_that_goes_too_often_is_dearer_than_one_on_demand() -> None:
    wants = Wants(deadline=300 * 24 * HOUR, spot=True)
    calm, wild = (answer(DEAR, SPOT, hours=50, wants=replace(wants, interruptions=rate)) for rate in (0.0, 8.0))
    assert calm.pick and calm.pick.row.spot and not calm.pick.times_taken
    assert wild.pick and not wild.pick.row.spot


def test_a_free_machine_takes_sessions_where_nothing_else_is_asked_for() -> None:
    asked = answer(FREE, hours=30, wants=Wants(only_free=True, deadline=1000 * HOUR))
    assert asked.pick and asked.pick.times_taken == 2 and (asked.pick.seconds or 0) > 30 * HOUR + 120
    assert any("a session lasts up to 12 h: 3 sessions, save before each ends" in line for line in lines(asked))


def test_the_chance_that_a_session_ends_too_early_counts() -> None:
    unsure = replace(FREE, log_sd_own=0.3)
    short, long = (answer(unsure, DEAR, hours=hours) for hours in (2, 11))
    assert short.pick and short.pick.device == "T, free" and (short.pick.sure or 0) > 0.95
    assert long.pick and long.pick.device == "T, free" and 0.5 < (long.pick.sure or 0) < 0.7
