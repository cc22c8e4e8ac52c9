"""Whether one would have picked the right kind of device: published comparisons that have a GPU and a TPU.

A comparison is one question (a round's benchmark, one table) and systems of n to 2n chips, GPUs and TPUs among them. It
is decided by time and by cost of an example, with the prices of the sheet, as decisions.py decides. A TPU's forecast is
a first estimate without its model; a GPU's is of XLA's programs, whose fit has none of these rows. Beside it is the
naive rule: the highest peak, by cost the highest peak for a dollar.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fit.decisions import RECORD, Case, Markets, decided, figures, no_prices, worst
from fit.generated import SCORES, percent, put_lines, score_cells, table
from fit.page import PAGE, by_group
from fit.steps import Step, read_steps, sheet
from fit.validation import Forecasts
from whichdevice.decide.decide import DRAWS
from whichdevice.forecast import joint
from whichdevice.forecast.joint import Card
from whichdevice.forecast.time_model import Peaks, forecast_step

KINDS = RECORD.with_name("kinds.json")
SIZES = 2  # times the chips of a comparison's smallest system


@dataclass(frozen=True)
class System:
    """A published step, and its forecast as joint draws are made of it; of an example."""

    step: Step
    part: Mapping[str, Any]

    @property
    def name(self) -> str:
        """`16 × TPU v3, batch 4096`."""
        return f"{self.step.chips} × {self.step.device}, batch {self.step.batch:g}, {self.step.seconds:.4g} s"

    @property
    def usd_per_hour(self) -> float:
        """The price of all chips; nan where there is none."""
        market = sheet()[self.step.device].market()
        return np.nan if market is None else market.usd_per_hour * self.step.chips


def systems(found: Forecasts) -> list[System]:
    """Every published step with its forecast; `found` has forecasts of TPUs, their models left out."""
    places = {
        (row.source_group, row.question, row.device, row.batch, row.seconds): place
        for place, row in enumerate(found.rows)
    }
    made = []
    for step in read_steps():
        if step.is_evidence:
            row = step.row()
            place = places[row.source_group, row.question, row.device, row.batch, row.seconds]
            seconds, software = step.seconds / float(np.exp(found.logs[place])), row.software
            shared, own = float(found.sd_shared[place]), float(found.sd_own[place])
        else:
            time = forecast_step(step.work, sheet()[step.device], "train", step.devices)
            seconds, software, shared, own = time.seconds, time.software, time.log_sd_shared, time.log_sd_own
        chip = Peaks.of(sheet()[step.device]).chip
        names = ("device_time", "software", "chip", "form", "log_sd_shared", "log_sd_own")
        values = (seconds / step.batch, software, chip, step.device, shared, own)
        made.append(System(step, dict(zip(names, values, strict=True))))
    return made


def comparisons(every: Sequence[System]) -> list[tuple[System, ...]]:
    """Systems of one question and similar size that have both kinds; none that is part of another.

    Of a device and number of chips the fastest counts.
    """
    found: list[frozenset[int]] = []
    for question in sorted({system.step.question for system in every}):
        fastest = {
            (every[place].step.device, every[place].step.chips): place
            for place in sorted(range(len(every)), key=lambda place: -_seconds(every[place]))
            if every[place].step.question == question
        }
        places = list(fastest.values())
        for smallest in sorted({every[place].step.chips for place in places}):
            chosen = frozenset(p for p in places if smallest <= every[p].step.chips <= SIZES * smallest)
            if _has_both(every[place] for place in chosen):
                found.append(chosen)
    kept = [chosen for chosen in found if not any(chosen < other for other in found)]
    return [tuple(every[place] for place in sorted(chosen)) for chosen in dict.fromkeys(kept)]


def _seconds(system: System) -> float:
    return system.step.seconds / system.step.batch


def _has_both(chosen: Iterable[System]) -> bool:
    return {system.step.is_tpu for system in chosen} == {True, False}


def case_of(chosen: Sequence[System]) -> Case:
    """The comparison of some systems."""
    peaks = [Peaks.of(sheet()[one.step.device]).operations["half"] * one.step.devices for one in chosen]
    draws = joint.draws([one.part for one in chosen], DRAWS)
    names, true = tuple(one.name for one in chosen), np.array([_seconds(one) for one in chosen])
    first = chosen[0].step
    return Case(first.question, first.source_group, names, "train", true, draws, {"peak": np.array(peaks)})


def kinds(found: Forecasts) -> dict[str, Any]:
    """The scorecard of decisions between kinds, by time and by cost; by cost among the systems that have a price."""
    whole = comparisons(systems(found))
    priced = [[one for one in chosen if one.usd_per_hour > 0] for chosen in whole]
    card = {}
    for by, sets in (("time", whole), ("cost", [chosen for chosen in priced if _has_both(chosen)])):
        made = []
        for chosen in sets:
            case, usd = case_of(chosen), np.array([[one.usd_per_hour for one in chosen]])
            cost = Markets(case.devices, usd, usd, np.zeros(len(chosen)))
            made.append(decided(case, no_prices(case.devices) if by == "time" else cost))
        card[by] = figures(made, by_source=False) | {"worst": worst(made, len(made))}
    return card


TITLES = {
    "xla of a GPU on TPU": "TPUs, first estimates: published steps, and programs of their compiler",
    "PyTorch on TPU": "Language models on TPUs: published trainings by MaxText",
}


def write_page(found: Mapping[str, Forecasts], cards: Card, card: Mapping[str, Any]) -> None:
    """Replace the part of the validation page that is about TPUs: their scorecards by software, and decisions."""
    lines = []
    for software, title in TITLES.items():
        rows = ([name, *score_cells(its)] for name, its in cards[software].items())
        lines += [f"### {title}", "", *table(("left out", *SCORES), rows), ""]
    for what, name in (("model", "model"), ("chip", "chip"), ("source", "source_group")):
        lines += [*by_group(f"{what}, first estimates", found["models"], name), ""]
    heads = ("by", "comparisons", "right", "naive rule right", "loses", "naive rule loses", "in 9 of 10", "at worst")
    rows = []
    for by, its in card.items():
        shares = [its[what][rule] for what in ("right", "regret") for rule in ("product", "peak")]
        rows.append([by, its["comparisons"], *map(percent, (*shares, its["regret_90"], its["regret_worst"]))])
    put_lines(PAGE, "python -m fit.tpu", lines[:-1])
    lines = list(table(heads, rows))
    for by, its in card.items():
        lines += ["", f"Not right by {by}:", "", *(f"- {name}" for name in its["worst"] or ["none"])]
    put_lines(PAGE, "python -m fit.tpu, decisions", lines)
