"""Whether one would have picked the right device: every published comparison of two devices or more, decided anew.

The forecasts had their model left out of the fit. A comparison has one source, model, mode, number format and software;
its devices have the same batch, or each its largest, then per example. The pick has the least expected time or cost, by
the same joint draws as a user's. Published times say what it loses. Next to it are rules that need no forecast.

Today's prices make some comparisons trivial, so there are random markets: the price of a card is what its fitted speed
is worth, times a random factor, as wide as providers' prices of a card in the sheet are. All authors have the same
weight, of an author all sets of devices, in a set all comparisons.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fit.fitting import Fitted, Published, Row
from fit.generated import DOCS
from fit.validation import Forecasts, folds, left_out
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide.decide import DRAWS, LIKELY, NEAR, SURE
from whichdevice.forecast import joint

RECORD = DOCS / "results" / "decisions.json"
FEW = 2  # devices that a comparison has at least
RIGHT = 0.03  # a pick is right where it is worse than the best by so much at most
MARKETS, SEED = 40, 1
PRICE_ERRORS = (0.2, 0.3)  # log spreads of what a price is off by
FOLDS, FEWER_FOLDS = 8, 4  # groups of models, each left out of the fitted speed of a card; of all there is
Prices = Mapping[str, float]  # a number by device: USD an hour, or a speed
HOLD = 1e-3  # rows: what a speed is held by to the bandwidth


@dataclass(frozen=True)
class Case:
    """Published times of one question on several devices."""

    name: str
    source: str
    devices: tuple[str, ...]
    mode: str
    true: np.ndarray  # [devices]: seconds an example
    draws: np.ndarray  # [devices, draws]: the forecast's
    rates: Mapping[str, np.ndarray]  # by rule, what it takes for the speed of a device

    @property
    def group(self) -> tuple[str, ...]:
        """The set that weighs as one in its source."""
        return (self.source, *sorted(self.devices))


@dataclass(frozen=True)
class Markets:
    """Some markets: what an hour of a device costs, what the decision takes it for, how far off (log) that may be."""

    devices: tuple[str, ...]
    true: np.ndarray  # [markets, devices]: USD
    known: np.ndarray  # [markets, devices]: USD
    spread: np.ndarray  # [devices]

    def of(self, devices: Sequence[str]) -> "Markets":
        """The prices of some devices."""
        chosen = [self.devices.index(device) for device in devices]
        return Markets(tuple(devices), self.true[:, chosen], self.known[:, chosen], self.spread[chosen])


@dataclass(frozen=True)
class Decided:
    """The decisions of one comparison: what each rule's pick loses against the best, how sure the product is of its."""

    case: Case
    picks: np.ndarray  # [markets]: places among the devices, by the product
    best: np.ndarray  # [markets]
    regrets: Mapping[str, np.ndarray]  # [markets] by rule, share of the best time or cost
    chances: np.ndarray  # [markets, devices]: that nothing is better by 5 %

    @property
    def sure(self) -> np.ndarray:
        """The chance of the picked device [markets]."""
        return np.asarray(np.take_along_axis(self.chances, self.picks[:, None], 1)[:, 0])


def cases(found: Forecasts, fitted: Sequence[Row] | None = None) -> list[Case]:
    """Every comparison: at each batch of enough devices, and at each device's largest where that has more devices.

    The speed of a card is fitted to rows of other models, or to the rows of `fitted`.
    """
    speeds = fitted_speeds(found) if fitted is None else [speeds_of(fitted, found.rows)] * FOLDS
    questions: dict[tuple[str, str, str], dict[float, dict[str, int]]] = {}
    for place, row in enumerate(found.rows):
        batches = questions.setdefault((row.source_group, row.software, row.question), {})
        batches.setdefault(row.batch, {})[row.device] = place  # the last: of newest software
    every = []
    for (source, software, question), batches in questions.items():
        largest = {device: place for batch in sorted(batches) for device, place in batches[batch].items()}
        sets = {f"batch {batch:g}": places for batch, places in batches.items()}
        if len(largest) > max(map(len, sets.values())):
            sets["an example"] = largest
        for words, places in sets.items():
            if len(places) >= FEW:
                every.append(_case(found, f"{source}, {software}: {question}, {words}", tuple(places.values()), speeds))
    return every


def _case(found: Forecasts, name: str, places: tuple[int, ...], speeds: Sequence[Prices]) -> Case:
    rows = [found.rows[place] for place in places]
    true = np.array([row.seconds / row.batch for row in rows])
    forecast = true / np.exp(found.logs[list(places)])
    parts = [
        {"device_time": seconds, "software": row.software, "chip": row.chip, "form": row.device,
         "log_sd_shared": found.sd_shared[place], "log_sd_own": found.sd_own[place]}
        for row, place, seconds in zip(rows, places, forecast, strict=True)
    ]  # fmt: skip
    heaviest = max(rows[0].work.items, key=lambda item: item.operations)
    precision = heaviest.precision or "float32"
    known = speeds[int(folds(found.rows, FOLDS)(rows[0]))]
    rates = {
        "peak": np.array([row.peaks.operations[precision] for row in rows]),
        "bandwidth": np.array([row.peaks.bandwidth for row in rows]),
        "speed": np.array([known.get(row.device, math.nan) for row in rows]),
    }
    devices = tuple(row.device for row in rows)
    return Case(name, rows[0].author, devices, rows[0].mode, true, joint.draws(parts, DRAWS), rates)


def fitted_speeds(found: Forecasts) -> list[Prices]:
    """One speed a card for each group of models, without their rows."""
    group = folds(found.rows, FOLDS)
    left_out = map(str, range(FOLDS))
    return [speeds_of([row for row in found.rows if group(row) != left], found.rows) for left in left_out]


def speeds_of(rows: Sequence[Row], known: Sequence[Row]) -> Prices:
    """Speeds of all cards that are known, by least squares of logarithms; those that no row compares by bandwidth."""
    bandwidth = {row.device: row.peaks.bandwidth for row in (*rows, *known)}
    devices, names = sorted(bandwidth), sorted({_question(row) for row in rows})
    of_device = np.array([devices.index(row.device) for row in rows])
    number = {name: place for place, name in enumerate(names)}
    of_question = np.array([number[_question(row)] for row in rows])
    logs = -np.log([row.seconds / row.batch for row in rows])
    count = np.zeros((len(names), len(devices)))
    np.add.at(count, (of_question, of_device), 1.0)
    # The mean of a question is eliminated: what is left is how its devices differ from each other.
    square = np.diag(count.sum(axis=0)) - count.T @ (count / count.sum(axis=1, keepdims=True))
    right = np.bincount(of_device, logs, len(devices)) - count.T @ (np.bincount(of_question, logs) / count.sum(axis=1))
    guess = np.log([bandwidth[device] for device in devices])
    speeds = np.linalg.solve(square + HOLD * np.eye(len(devices)), right + HOLD * (guess - guess.mean()))
    return {device: float(np.exp(speed)) for device, speed in zip(devices, speeds, strict=True)}


def _question(row: Row) -> str:
    return f"{row.source_group}, {row.software}: {row.question}"


def decided(case: Case, markets: Markets) -> Decided:
    """The decision between a comparison's devices in each market."""
    prices = markets.of(case.devices)
    cost = case.true * prices.true
    over = cost / cost.min(axis=1, keepdims=True) - 1
    noise = [
        spread * joint.normal(DRAWS, 0, "price", device)
        for spread, device in zip(prices.spread, case.devices, strict=True)
    ]
    draws = prices.known[:, :, None] * (case.draws * np.exp(noise))
    chances = (draws <= draws.min(axis=1, keepdims=True) * (1 + NEAR)).mean(axis=2)
    guesses = {"product": draws.mean(axis=2)} | {rule: prices.known / rate for rule, rate in case.rates.items()}
    picks = {rule: np.argmin(guess, axis=1) for rule, guess in guesses.items()}
    regrets = {rule: np.take_along_axis(over, pick[:, None], 1)[:, 0] for rule, pick in picks.items()}
    return Decided(case, picks["product"], np.argmin(cost, axis=1), regrets, chances)


def no_prices(devices: Sequence[str]) -> Markets:
    """One market in which all cost the same: time decides."""
    return Markets(tuple(devices), np.ones((1, len(devices))), np.ones((1, len(devices))), np.zeros(len(devices)))


def random_markets(speeds: Mapping[str, float], error: float = 0.0, aware: bool = True) -> Markets:
    """MARKETS in which a card costs what its speed is worth, times a random factor; all cards have a price.

    The decision sees prices that are off by `error` (log), more so for cards whose offers differ more; `aware` says
    whether it knows by how much.
    """
    devices, random = tuple(sorted(speeds)), np.random.default_rng(SEED)
    sheet = {device: math.hypot(its.log_sd_own, its.log_sd_shared) for device, its in _sheet(devices).items()}
    usual = math.sqrt(float(np.mean(np.square(list(sheet.values())))))
    spread = error * np.array([sheet.get(device, usual) for device in devices]) / usual
    logs = np.log([speeds[device] for device in devices]) + usual * random.standard_normal((MARKETS, len(devices)))
    seen = logs + spread * random.standard_normal(logs.shape)
    return Markets(devices, np.exp(logs), np.exp(seen), spread if aware else np.zeros(len(devices)))


def _sheet(devices: Sequence[str]) -> dict[str, Any]:
    rows = hardware_rows()
    return {device: market for device in devices if (market := rows[device].market())}


def weights(made: Sequence[Decided]) -> np.ndarray:
    """Return the weight of each comparison: each source one, in it each set of devices, in it each comparison."""
    groups = [each.case.group for each in made]
    number, of_source = Counter(groups), Counter(group[0] for group in set(groups))
    return np.array([1 / number[group] / of_source[group[0]] for group in groups])


def figures(made: Sequence[Decided], by_source: bool = True) -> dict[str, Any]:
    """Shares and regrets by rule, weighted; how often a pick is sure, and near the best then."""
    of_case = weights(made) if by_source else np.ones(len(made))
    markets = len(made[0].picks)
    weight = np.repeat(of_case, markets) / of_case.sum() / markets
    regrets = {rule: np.concatenate([each.regrets[rule] for each in made]) for rule in made[0].regrets}
    sure = np.concatenate([each.sure for each in made])
    mean = {rule: float(regret @ weight) for rule, regret in regrets.items()}
    order = np.argsort(regrets["product"])
    upto = np.searchsorted(np.cumsum(weight[order]), 0.9)
    near = regrets["product"] <= NEAR
    words = {"sure": sure >= SURE, "probably": (sure >= LIKELY) & (sure < SURE), "one of several": sure < LIKELY}
    return {
        "comparisons": len(made),
        "sources": len({each.case.source for each in made}),
        "right": {rule: _share(regret <= RIGHT, weight) for rule, regret in regrets.items()},
        "regret": {rule: round(its, 4) for rule, its in mean.items()},
        "skill": {rule: round(1 - mean["product"] / mean[rule], 3) for rule in list(mean)[1:] if mean[rule]},
        "regret_90": round(float(regrets["product"][order][min(upto, len(order) - 1)]), 3),
        "regret_worst": round(float(regrets["product"].max()), 3),
        "words": {name: [_share(its, weight), _share(near[its], weight[its])] for name, its in words.items()},
    }


def _share(values: Any, of: np.ndarray) -> float:
    return round(float(np.average(values, weights=of)), 3) if of.any() else 0.0


def strangers(published: Published, whole: Fitted) -> Forecasts:
    """Forecasts of rows without any row of the same model, chip or author in the fit."""
    group = folds(published.rows, FEWER_FOLDS)
    return left_out(published, lambda row: (group(row), row.chip, row.author), whole)


def scored(found: Forecasts, test_set: Forecasts | None = None) -> dict[str, Any]:
    """The scorecard: by time, in random markets, and at wrong prices; trainings are also those that no fit has seen."""
    every, tested = cases(found), [] if test_set is None else cases(test_set, found.rows)
    speeds = speeds_of(found.rows, () if test_set is None else test_set.rows)
    free, markets = no_prices(tuple(speeds)), random_markets(speeds)
    trained = [case for case in (*every, *tested) if case.mode == "train"]
    by_time = [decided(case, free) for case in every]
    card = {
        "time": figures(by_time) | {"worst": worst(by_time)},
        "time, trainings": figures([decided(case, free) for case in trained]),
        "random markets": figures([decided(case, markets) for case in every]),
        "random markets, trainings": figures([decided(case, markets) for case in trained]),
    }
    for error in PRICE_ERRORS:
        for aware in (True, False):
            wrong = random_markets(speeds, error, aware)
            name = f"prices off by {100 * error:.0f} %, {'known' if aware else 'not known'}"
            card[name] = figures([decided(case, wrong) for case in every])
    return card


def worst(made: Sequence[Decided], number: int = 10) -> list[str]:
    """The picks that lose most in the first market, in words."""
    lost = sorted(made, key=lambda its: -float(its.regrets["product"][0]))[:number]
    return [
        f"{its.case.name}: {its.case.devices[its.picks[0]]}, best {its.case.devices[its.best[0]]}, "
        f"{100 * its.regrets['product'][0]:.0f} % worse"
        for its in lost
        if its.regrets["product"][0] > 2 * NEAR
    ]
