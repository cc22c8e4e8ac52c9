"""Whether one would have picked the right device: every published comparison of three devices or more, decided anew.

Each model was left out of the fit for its forecasts. `decide` picks by time and by cost as it does for a user, from the
same joint draws and the prices of the sheet; published times say what each device takes. A comparison has one source,
model, mode, number format and software. Devices have the same batch, or each its largest, then per example. All
comparisons of one source and set of devices weigh as one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fit.validation import SURE, Forecasts
from whichdevice.answer.decide import NEAR, Amount, By, Wants, decide
from whichdevice.answer.rows import FORECAST, Work
from whichdevice.answer.rows import Row as Device
from whichdevice.config.hardware import hardware_rows

RECORD = Path(__file__).parents[1] / "docs" / "results" / "decisions.json"
FEW = 3  # devices that a comparison has at least
HOURS = 1000.0  # that the work takes on the fastest device: minutes and cents play no part
RIGHT = 0.03  # a pick is right where it is worse than the best by so much at most
# One silicon, published times 3 and 6 % apart: either is right.
TWINS = ({"RTX 5090", "RTX 6000 Pro Max-Q"}, {"V100 SXM2", "V100 SXM2 32GB"})
CONTRADICTS = 1.5  # a row so far (a factor) from what its neighbours say of it contradicts them
BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


@dataclass(frozen=True)
class Case:
    """Published times of one question on several devices: places among the forecasts."""

    name: str
    group: tuple[str, ...]  # source and devices
    places: tuple[int, ...]


@dataclass(frozen=True)
class Pick:
    """One decision: what it lost against the best, how sure it was, and of each device chance and truth."""

    name: str
    group: tuple[str, ...]
    device: str
    best: str
    regret: float  # share of the best time or cost
    sure: float
    chances: tuple[tuple[float, bool], ...]  # that nothing is better by 5 %, and whether nothing was

    @property
    def toss(self) -> bool:
        """Return whether it is right only since pick and best are near twins."""
        return self.regret > RIGHT and {self.device, self.best} in TWINS

    @property
    def right(self) -> bool:
        """Return whether one loses next to nothing."""
        return self.toss or self.regret <= RIGHT


def cases(found: Forecasts) -> list[Case]:
    """Every comparison: at each batch of enough devices, and at each device's largest where that has more devices."""
    questions: dict[tuple[str, str, str], dict[float, dict[str, int]]] = {}
    for place, row in enumerate(found.rows):
        batches = questions.setdefault((row.source_group, row.software, row.question), {})
        batches.setdefault(row.batch, {})[row.device] = place  # the last: of newest software
    cases = []
    for (source, software, question), batches in questions.items():
        largest = {device: place for batch in sorted(batches) for device, place in batches[batch].items()}
        sets = {f"batch {batch:g}": places for batch, places in batches.items()}
        if len(largest) > max(map(len, sets.values())):
            sets["an example"] = largest
        for words, places in sets.items():
            if len(places) >= FEW:
                name = f"{source}, {software}: {question}, {words}"
                cases.append(Case(name, (source, *sorted(places)), tuple(places.values())))
    return cases


def picks(found: Forecasts, every: Sequence[Case], by: By) -> list[Pick]:
    """The decision of every comparison; by cost among the devices that have a price, where they are enough."""
    markets = {name: row.market() for name, row in hardware_rows().items()}
    made, seen = [], set[tuple[int, ...]]()
    for case in every:
        priced = [(place, markets[found.rows[place].device]) for place in case.places]
        known = [(place, market.usd_per_hour if market else None) for place, market in priced if market or by == "time"]
        if len(known) < FEW:
            continue
        places, prices = map(list, zip(*known, strict=True))
        if tuple(sorted(places)) in seen:  # two comparisons that differ by a device without a price
            continue
        seen.add(tuple(sorted(places)))
        true = np.array([found.rows[place].seconds / found.rows[place].batch for place in places])
        forecast = true / np.exp(found.logs[places])
        devices = tuple(
            Device(
                found.rows[place].device, "gpu", FORECAST, found.rows[place].software,
                step_time=seconds, device_time=seconds, log_sd_shared=found.sd_shared[place],
                log_sd_own=found.sd_own[place], chip=found.rows[place].chip, usd_per_hour=price, rented=True,
            )
            for place, seconds, price in zip(places, map(float, forecast), prices, strict=True)
        )  # fmt: skip
        work = Work(case.name, "", "train", 1, None, "example", 1.0, None, None, devices)
        amount = Amount(HOURS * 3600 / float(forecast.min()), "", True)
        answer = decide(work, Wants(by=by, deadline=float("inf")), amount)
        assert answer.pick is not None
        cost = true * np.array(prices, dtype=float) if by == "cost" else true
        over = dict(zip([each.device for each in devices], cost / cost.min() - 1, strict=True))
        chances = tuple((each.sure or 0.0, bool(over[each.device] <= NEAR)) for each in answer.options)
        best, name = min(over, key=over.__getitem__), answer.pick.device
        group = (case.group[0], *sorted(over))
        made.append(Pick(case.name, group, name, best, float(over[name]), answer.pick.sure or 0.0, chances))
    return made


def figures(made: Sequence[Pick]) -> dict[str, Any]:
    """Shares and regrets, weighted; `calibration` has bins of chances: mean chance, share of truth, number."""
    groups = [each.group for each in made]
    weight = np.array([1 / groups.count(each) for each in groups])
    regret, sure = np.array([each.regret for each in made]), np.array([each.sure >= SURE for each in made])
    order = np.argsort(regret)
    upto = np.cumsum(weight[order]) / weight.sum()
    chances = np.array([chance for each in made for chance in each.chances])
    weights = np.repeat(weight, [len(each.chances) for each in made])
    inside = np.digitize(chances[:, 0], BINS[1:-1])
    bins = [inside == number for number in range(len(BINS) - 1)]

    def share(values: Any, of: np.ndarray = weight) -> float:
        return round(float(np.average(values, weights=of)), 3) if of.any() else 0.0

    return {
        "comparisons": len(made),
        "questions": len({each.name.rpartition(", ")[0] for each in made}),
        "sets": len(set(groups)),
        "right": share([each.right for each in made]),
        "right_without_tosses": share(regret <= RIGHT),
        "right_unweighted": share([each.right for each in made], np.ones(len(made))),
        "tosses": sum(each.toss for each in made),
        "regret_mean": round(float(np.average(regret, weights=weight)), 4),
        "regret_90": round(float(regret[order][np.searchsorted(upto, 0.9)]), 3),
        "regret_worst": round(float(regret.max()), 3),
        "sure": share(sure),
        "sure_right": share(regret[sure] <= NEAR, weight[sure]),
        "calibration": [
            [share(chances[its, 0], weights[its]), share(chances[its, 1], weights[its]), int(its.sum())]
            for its in bins
            if its.any()
        ],
    }  # fmt: skip


def contradictions(found: Forecasts, every: Sequence[Case]) -> list[str]:
    """Rows whose published time is far from what the other devices of their comparison say, by the forecast."""
    names = {}
    for case in every:
        logs = found.logs[list(case.places)]
        for number, place in enumerate(case.places):
            off = float(np.exp(logs[number] - np.median(np.delete(logs, number))))
            if max(off, 1 / off) > CONTRADICTS:
                row = found.rows[place]
                names[place] = f"{row.device}, {case.name.partition(', ')[2]} ({case.group[0]}): {off:.2f} × as long"
    return sorted(names.values())


def decisions(found: Forecasts) -> dict[str, Any]:
    """The scorecard of decisions, by time and by cost, with the worst picks and the rows that contradict others."""
    every, card = cases(found), dict[str, Any]()
    for by in ("time", "cost"):
        made = picks(found, every, by)
        worst = sorted((each for each in made if each.regret > 2 * NEAR), key=lambda each: -each.regret)
        named = [f"{p.name}: {p.device}, best {p.best}, {100 * p.regret:.0f} % worse" for p in worst]
        card[by] = figures(made) | {"worst": named[:10]}
    return card | {"contradict": contradictions(found, every)}


def read_decisions() -> dict[str, Any]:
    """The committed scorecard of decisions."""
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))
