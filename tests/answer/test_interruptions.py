"""Machines that are taken away and sessions that end: expected hours, and how often to save."""

from dataclasses import replace

import numpy as np
import pytest

from whichdevice.decide import Answer, Wants
from whichdevice.decide.decide import Amount, decide
from whichdevice.decide.interruptions import HOUR, RATE, Interruptions
from whichdevice.decide.rows import FORECAST, AskedWork, Price, Row
from whichdevice.decide.words import lines

RUNS = 20_000
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
        ends = chance.exponential(1 / RATE, runs)
        done = going & (ends >= length)
        billed += np.where(going, np.minimum(ends, length), 0.0)
        left -= np.where(done, part, 0.0)
        loading = np.where(done, 0.0, machine.load)
    return billed


def answer(*rows: Row, hours: float, wants: Wants | None = None) -> Answer:
    work = AskedWork("net", "net.py", "train", 1, None, "image", 1.0, None, None, rows)
    return decide(work, wants or Wants(deadline=300 * 24 * HOUR), Amount(hours * HOUR))


@pytest.mark.parametrize(("hours", "save", "load"), [(24, 15.0, 480.0), (100, 60.0, 600.0), (10, 120.0, 900.0)])
def test_the_formula_is_the_mean_of_a_simulation_and_no_other_interval_is_better(hours, save, load) -> None:
    machine, work = Interruptions(save, load), hours * HOUR
    runs = simulated(machine, work, machine.interval)
    [mean], [sd] = machine.billed(np.array([work]))
    assert mean == pytest.approx(runs.mean(), rel=0.02)
    assert sd == pytest.approx(np.log(runs).std(), rel=0.2)
    assert all(simulated(machine, work, machine.interval * times).mean() > 0.999 * mean for times in (0.25, 4.0))


def test_an_answer_says_how_often_to_save() -> None:
    asked = answer(DEAR, SPOT, hours=100, wants=Wants(deadline=300 * 24 * HOUR, spot=True))
    [sentence] = [line for line in lines(asked) if "taken away" in line]
    start = "It may be taken away at any moment, 5 % an hour (assumed): save every 32 min. On demand: USD 300 (Cloud)."
    assert sentence == start
    spot = next(option for option in asked.options if option.row.spot)
    assert spot.seconds and 100 * HOUR < spot.seconds < 110 * HOUR and 4 < spot.times_taken < 6


def test_a_free_machine_takes_sessions_where_nothing_else_is_asked_for() -> None:
    asked = answer(FREE, hours=30, wants=Wants(only_free=True, deadline=1000 * HOUR))
    assert asked.pick and asked.pick.times_taken == 2 and (asked.pick.seconds or 0) > 30 * HOUR + 120
    assert any("a session lasts up to 12 h: 3 sessions, save before each ends" in line for line in lines(asked))


def test_the_chance_that_a_session_ends_too_early_counts() -> None:
    unsure = replace(FREE, log_sd_own=0.3)
    short, long = (answer(unsure, DEAR, hours=hours) for hours in (2, 11))
    assert short.pick and short.pick.device == "T, free" and (short.pick.sure or 0) > 0.95
    assert long.pick and long.pick.device == "T, free" and 0.5 < (long.pick.sure or 0) < 0.7
