"""The scorecard of decisions: each published comparison is decided anew, next to rules without a forecast."""

import json
import math

import numpy as np
import pytest
from fit.decisions import RECORD, Markets, cases, decided, figures, no_prices, random_markets, scored
from fit.fitting import Row
from fit.validation import Forecasts

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide.decide import Amount, Wants, decide
from whichdevice.decide.rows import FORECAST, AskedWork
from whichdevice.decide.rows import Row as Device
from whichdevice.forecast.time_model import Peaks
from whichdevice.forecast.work import Item
from whichdevice.forecast.work import Work as Traced

SHEET = hardware_rows()
SECONDS = {"T4": 4.0, "L4": 2.0, "RTX 4090": 1.0}
WORK = Traced("gpu", (Item("product", "half", 1e12, 1e9, 10),), software="eager")


def published(seconds=SECONDS, models=("a", "b", "c"), source="one", sd_own=0.1, miss=None):
    """Forecasts of every model on every device; `miss` has the log of published over forecast of some."""
    rows = tuple(
        Row(source, device, its, 8.0, model, f"{model} train", "train", WORK, Peaks.of(SHEET[device]))
        for model in models
        for device, its in seconds.items()
    )
    logs = np.array([(miss or {}).get(row.device, 0.0) for row in rows])
    own = np.full(len(rows), sd_own)
    return Forecasts(rows, logs, own, own, np.full(len(rows), 1e-4), own)


def test_a_good_forecast_picks_the_fastest_and_a_wrong_one_says_what_it_loses():
    [first, *_] = cases(published())
    its = decided(first, no_prices(list(SECONDS)))
    assert first.devices[its.picks[0]] == "RTX 4090"
    assert its.regrets["product"][0] == 0 and its.sure[0] > 0.99
    wrong = published(miss={"T4": math.log(5)})  # forecast 0.8 s: the T4 seems to be the fastest
    [first, *_] = cases(wrong)
    its = decided(first, no_prices(list(SECONDS)))
    assert first.devices[its.picks[0]] == "T4"
    assert its.regrets["product"][0] == pytest.approx(3.0)


def test_pick_and_chance_are_those_of_an_answer():
    [first, *_] = cases(published(seconds={"T4": 4.0, "L4": 2.0, "RTX 4090": 1.7}, sd_own=0.2))
    prices = np.array([[0.3, 0.6, 0.65]])
    its = decided(first, Markets(first.devices, prices, prices, np.zeros(3)))
    rows = tuple(
        Device(
            device, "gpu", FORECAST, "eager", step_time=seconds * 8, device_time=seconds * 8, log_sd_shared=0.2,
            log_sd_own=0.2, chip=Peaks.of(SHEET[device]).chip, usd_per_hour=price, rented=True,
        )
        for device, seconds, price in zip(first.devices, first.true, prices[0], strict=True)
    )  # fmt: skip
    work = AskedWork("one", "", "train", 1, None, "example", 1.0, None, None, rows)
    answer = decide(work, Wants(deadline=math.inf), Amount(1e9))
    assert answer.pick is not None and answer.pick.device == first.devices[its.picks[0]]
    assert {option.device: option.sure for option in answer.options} == pytest.approx(
        dict(zip(first.devices, its.chances[0], strict=True)), abs=0.02
    )


def test_each_author_counts_the_same_however_many_comparisons_there_are():
    good, bad = published(models=[f"m{number}" for number in range(20)]), published(source="two", models=("a",))
    both = Forecasts(
        good.rows + bad.rows,
        np.concatenate([good.logs, [math.log(5), 0.0, 0.0]]),
        *(
            np.concatenate([getattr(good, name), getattr(bad, name)])
            for name in ("sd_shared", "sd_own", "host", "host_sd")
        ),
    )
    made = [decided(case, no_prices(list(SECONDS))) for case in cases(both)]
    assert figures(made)["right"]["product"] == 0.5
    assert figures(made, by_source=False)["right"]["product"] == pytest.approx(20 / 21, abs=1e-3)


def test_a_decision_that_knows_how_far_its_prices_are_off_is_sure_less_often_and_rightly():
    found = published(models=[f"m{number}" for number in range(4)], sd_own=0.02)
    speeds = {device: 1 / seconds for device, seconds in SECONDS.items()}
    made = {
        aware: figures([decided(case, random_markets(speeds, 0.3, aware)) for case in cases(found)])["words"]["sure"]
        for aware in (True, False)
    }
    (often, right), (oftener, wrong) = made[True], made[False]
    assert often < oftener and right > wrong
    exact = figures([decided(case, random_markets(speeds)) for case in cases(found)])
    assert exact["right"]["product"] == 1.0 and exact["words"]["sure"][0] > 0.9


def test_the_committed_card_has_every_kind_of_decision_for_all_that_was_left_out():
    made, committed = scored(published()), json.loads(RECORD.read_text(encoding="utf-8"))
    assert all(set(card) == set(made) for card in committed.values())
