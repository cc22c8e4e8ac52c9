"""Whether one would have picked the right kind of device: published comparisons that have a GPU and a TPU.

A comparison is one question (a round's benchmark, one table) and systems of n to 2n chips, GPUs and TPUs among them.
`decide` picks by time and by cost of an example, with the prices of the sheet. A TPU's forecast is a first estimate
without its model; a GPU's is of XLA's programs, whose fit has none of these rows. Submissions on GPUs run kernels of
their own: their forecasts have the mean lead of other models' submissions. Beside it are two naive rules: the highest
peak, and the highest peak for a dollar.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fit.decisions import RECORD
from fit.generated import SCORES, percent, put_lines, score_cells, table
from fit.page import PAGE, by_group
from fit.steps import Step, read_steps, sheet
from fit.validation import Forecasts
from whichdevice.decide.decide import NEAR, Amount, By, Wants, decide
from whichdevice.decide.rows import FORECAST, AskedWork
from whichdevice.decide.rows import Row as Device
from whichdevice.forecast.joint import Card
from whichdevice.forecast.time_model import Peaks, forecast_step

KINDS = RECORD.with_name("kinds.json")
BYS: tuple[By, ...] = ("time", "cost")
HOURS = 1000.0  # that the work takes on the fastest system: minutes and cents play no part
SUBMISSIONS = "mlperf"  # what their source groups begin with
SIZES = 2  # times the chips of a comparison's smallest system


@dataclass(frozen=True)
class System:
    """One published step, its forecast, and its price; seconds of an example."""

    step: Step
    seconds: float
    forecast: float
    sd_shared: float
    sd_own: float
    software: str
    peak: float  # bfloat16 or float16 operations per second of all chips
    usd_per_hour: float | None

    @property
    def name(self) -> str:
        """`16 × TPU v3, batch 4096`."""
        return f"{self.step.chips} × {self.step.device}, batch {self.step.batch:g}, {self.step.seconds:.4g} s"

    def row(self) -> Device:
        """The row that a decision is made of."""
        chip = Peaks.of(sheet()[self.step.device]).chip
        return Device(
            self.name, "tpu" if self.step.is_tpu else "gpu", FORECAST, self.software, step_time=self.forecast,
            device_time=self.forecast, log_sd_shared=self.sd_shared, log_sd_own=self.sd_own, chip=chip,
            usd_per_hour=self.usd_per_hour, rented=True,
        )  # fmt: skip


def systems(found: Forecasts) -> list[System]:
    """Every published step with its forecast; `found` has those of TPUs, their models left out."""
    places = {
        (row.source_group, row.question, row.device, row.batch, row.seconds): place
        for place, row in enumerate(found.rows)
    }
    made = []
    for step in read_steps():
        device = sheet()[step.device]
        market, peaks = device.market(), Peaks.of(device)
        price = None if market is None else market.usd_per_hour * step.chips
        peak = peaks.operations["half"] * step.devices
        if step.is_evidence:
            row = step.row()
            place = places[row.source_group, row.question, row.device, row.batch, row.seconds]
            forecast, software = step.seconds / float(np.exp(found.logs[place])), row.software
            shared, own = float(found.sd_shared[place]), float(found.sd_own[place])
        else:
            time = forecast_step(step.work, device, "train", step.devices)
            forecast, software, shared, own = time.seconds, time.software, time.log_sd_shared, time.log_sd_own
        made.append(System(step, step.seconds / step.batch, forecast / step.batch, shared, own, software, peak, price))
    return made


def led(every: Sequence[System]) -> list[System]:
    """Return the systems; submissions on GPUs by the mean lead over XLA that those of other models have."""
    leads: dict[str, list[float]] = {}
    for system in every:
        if _is_submission(system):
            leads.setdefault(_model(system), []).append(float(np.log(system.seconds / system.forecast)))
    means = {model: float(np.mean(logs)) for model, logs in leads.items()}

    def forecast(system: System) -> float:
        others = [mean for model, mean in means.items() if model != _model(system)]
        return system.forecast * float(np.exp(np.mean(others))) if others else system.forecast

    return [replace(system, forecast=forecast(system)) if _is_submission(system) else system for system in every]


def _is_submission(system: System) -> bool:
    return not system.step.is_tpu and system.step.source_group.startswith(SUBMISSIONS)


def _model(system: System) -> str:
    return system.step.program.partition(" ")[0]


def pairs(compared: Sequence[Sequence[System]]) -> list[tuple[System, ...]]:
    """Every TPU system of a comparison beside every GPU system, once."""
    found = [
        (one, other)
        for chosen in compared
        for one in chosen
        for other in chosen
        if one.step.is_tpu and not other.step.is_tpu
    ]
    return list({(one.step, other.step): (one, other) for one, other in found}.values())


def comparisons(every: Sequence[System]) -> list[tuple[System, ...]]:
    """Systems of one question and similar size that have both kinds; none that is part of another.

    Of a device and number of chips the fastest counts.
    """
    found: list[frozenset[int]] = []
    for question in sorted({system.step.question for system in every}):
        fastest = {
            (every[place].step.device, every[place].step.chips): place
            for place in sorted(range(len(every)), key=lambda place: -every[place].seconds)
            if every[place].step.question == question
        }
        places = list(fastest.values())
        for smallest in sorted({every[place].step.chips for place in places}):
            chosen = frozenset(p for p in places if smallest <= every[p].step.chips <= SIZES * smallest)
            if {every[place].step.is_tpu for place in chosen} == {True, False}:
                found.append(chosen)
    kept = [chosen for chosen in found if not any(chosen < other for other in found)]
    return [tuple(every[place] for place in sorted(chosen)) for chosen in dict.fromkeys(kept)]


@dataclass(frozen=True)
class Pick:
    """A decision: what it lost against the best, and what the naive rule lost."""

    question: str
    systems: int
    picked: str
    best: str
    regret: float
    naive: float
    kind_right: bool
    sure: float


def picks(every: Sequence[tuple[System, ...]], by: By) -> list[Pick]:
    """The decision of every comparison; by cost among the systems that have a price."""
    made = []
    for chosen in every:
        known = [system for system in chosen if by == "time" or system.usd_per_hour]
        if {system.step.is_tpu for system in known} != {True, False}:
            continue
        cost = np.array([system.seconds * (1.0 if by == "time" else system.usd_per_hour or 0.0) for system in known])
        over = cost / cost.min() - 1
        question = known[0].step.question
        rows = tuple(each.row() for each in known)
        work = AskedWork(question, "", "train", 1, None, "example", 1.0, None, None, rows)
        amount = Amount(HOURS * 3600 / min(system.forecast for system in known), "", True)
        answer = decide(work, Wants(by=by, deadline=float("inf")), amount)
        assert answer.pick is not None
        picked = [system.name for system in known].index(answer.pick.device)
        best = int(np.argmin(cost))
        worth = [system.peak / (1.0 if by == "time" else system.usd_per_hour or 1.0) for system in known]
        same_kind = known[picked].step.is_tpu == known[best].step.is_tpu
        made.append(
            Pick(
                question, len(known), known[picked].name, known[best].name, float(over[picked]),
                float(over[int(np.argmax(worth))]), same_kind, answer.pick.sure or 0.0,
            )
        )  # fmt: skip
    return made


def figures(made: Sequence[Pick]) -> dict[str, Any]:
    """Shares and regrets of the decisions and of the naive rule."""
    regret, naive = (np.array([getattr(pick, name) for pick in made]) for name in ("regret", "naive"))
    worst = sorted((pick for pick in made if pick.regret > NEAR), key=lambda pick: -pick.regret)
    return {
        "comparisons": len(made),
        "systems": sum(pick.systems for pick in made),
        "right": round(float(np.mean(regret <= NEAR)), 3),
        "right_kind": round(float(np.mean([pick.kind_right for pick in made])), 3),
        "regret_mean": round(float(regret.mean()), 3),
        "regret_90": round(float(np.quantile(regret, 0.9, method="higher")), 3),
        "regret_worst": round(float(regret.max()), 3),
        "naive_right": round(float(np.mean(naive <= NEAR)), 3),
        "naive_regret_90": round(float(np.quantile(naive, 0.9, method="higher")), 3),
        "worst": [f"{p.question}: {p.picked}; best {p.best}, {100 * p.regret:.0f} % worse" for p in worst],
    }


def kinds(found: Forecasts) -> dict[str, Any]:
    """The scorecard of decisions between kinds, of whole comparisons and of pairs, by time and by cost."""
    card: dict[str, Any] = {}
    plain = systems(found)
    for ending, its in (("", led(plain)), (" of XLA alone", plain)):
        whole = comparisons(its)
        every: dict[str, Sequence[tuple[System, ...]]] = {"sets": whole, "pairs": pairs(whole)}
        card |= {name + ending: {by: figures(picks(chosen, by)) for by in BYS} for name, chosen in every.items()}
    return card


def write_kinds(card: Mapping[str, Any]) -> None:
    """Write docs/results/kinds.json."""
    KINDS.write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


ABOUT = """### Decisions between kinds

Each published comparison that has a GPU and a TPU, of n to 2n chips, is decided as `ask` decides. A TPU's model was
left out of its fit; the GPUs' fit has none of these rows. Submissions to MLPerf on GPUs run the vendor's own kernels:
their forecasts have the mean lead over XLA's that the submissions of the other models have. *Right*: within 5 % of the
best published time or cost. The naive rule takes the highest peak in 16 bits, by cost the highest peak for a dollar.
*Two systems*: each GPU system of a comparison beside each TPU system.
"""
TITLES = {
    "xla of a GPU on TPU": "TPUs, first estimates: published steps, and programs of their compiler",
    "PyTorch on TPU": "Language models on TPUs: published trainings by MaxText",
}
LINES = {
    "right": "right", "right_kind": "the picked kind is the best one's", "naive_right": "right by the naive rule",
    "regret_mean": "worse than the best, mean", "regret_90": "worse than the best in 9 of 10 comparisons by at most",
    "naive_regret_90": "the same of the naive rule", "regret_worst": "worse than the best at worst by",
}  # fmt: skip


def write_page(found: Mapping[str, Forecasts], cards: Card, card: Mapping[str, Any]) -> None:
    """Replace the part of the validation page that is about TPUs: their scorecards by software, and decisions."""
    lines = []
    for software, title in TITLES.items():
        rows = ([name, *score_cells(its)] for name, its in cards[software].items())
        lines += [f"### {title}", "", *table(("left out", *SCORES), rows), ""]
    for what, name in (("model", "model"), ("chip", "chip"), ("source", "source_group")):
        lines += [*by_group(f"{what}, first estimates", found["models"], name), ""]
    columns = [card[name][by] for name in ("sets", "pairs") for by in BYS]
    plain = [card[f"{name} of XLA alone"][by]["right"] for name in ("sets", "pairs") for by in BYS]
    cells = [["comparisons", *(its["comparisons"] for its in columns)]]
    cells += [[words, *(percent(its[name], 1) for its in columns)] for name, words in LINES.items()]
    cells.append(["right by forecasts of XLA alone", *(percent(share, 1) for share in plain)])
    lines += [ABOUT, *table(("", "by time", "by cost", "two systems, by time", "by cost"), cells)]
    for by in BYS:
        lines += ["", f"Not right by {by}:", "", *(f"- {name}" for name in card["sets"][by]["worst"] or ["none"])]
    put_lines(PAGE, "python -m fit.tpu", lines)
