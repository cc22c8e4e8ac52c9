"""The page: Python's answer for each model at its default choice, and a row for each model on each device."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from whichdevice.apps.explorer.answers import default_answer, targets, without
from whichdevice.apps.explorer.steps import GROUPS, MIXED, KnownModel, known_models
from whichdevice.base.sheets.hardware import HardwareRow, hardware_rows
from whichdevice.decide import words
from whichdevice.decide.decide import DEADLINE_HOURS, MILLION
from whichdevice.forecast.targets import Target
from whichdevice.study.report.chart import chart
from whichdevice.study.report.page import render
from whichdevice.study.report.products import products

EXPLORER_FOLDER = Path(__file__).parent
FIRST = "resnet50"  # the model that the page begins with

Served = Callable[[str], Sequence[str]]  # lines on what serves a model, of its name


def write_page(page: Path, names: Iterable[str] = (), served: Served = lambda _: ()) -> None:
    """Write the page of these models, or of all; `served` says what serves one, if it can be."""
    models, sheet, devices = known_models(), hardware_rows(), targets()
    chosen = [models[name] for name in names] or list(models.values())
    described = [_described(model, devices, sheet) | {"serving": served(model.name)} for model in chosen]
    first = FIRST if FIRST in {model.name for model in chosen} else chosen[0].name
    days = [str(offer.date) for row in sheet.values() for offer in row.offers]
    render(
        "explorer.html", page, EXPLORER_FOLDER, models=described, first=first,
        dates=f"Prices: the oldest is of {min(days)}, the newest of {max(days)}.",
        examples=MILLION, deadline=DEADLINE_HOURS,
    )  # fmt: skip


def _described(model: KnownModel, devices: Sequence[Target], sheet: Mapping[str, HardwareRow]) -> dict[str, Any]:
    """Return what the page shows of a model."""
    training, answer = default_answer(model, devices, sheet)
    small = [option.device for option in answer.options if option.row.fits is False]
    return {
        "name": model.name, "group": GROUPS[model.library], "lines": words.lines(answer),
        "title": " · ".join([words.title(answer), *[training] * (training != MIXED)]),
        "chart": chart(answer), "rows": products(answer),
        "notes": [
            *([f"Too small: {words.joined(small, 6)}."] if small and answer.pick else []),
            *words.notes(answer), *_left_out(model, training, devices),
        ],
    }  # fmt: skip


def _left_out(model: KnownModel, training: str, devices: Sequence[Target]) -> list[str]:
    """Return a line for each reason why devices have no row."""
    reasons: dict[str, list[str]] = {}
    for target in devices:
        if reason := without(model, training, target):
            reasons.setdefault(reason, []).append(target.device)
    return [f"No rows of {words.joined(names)}: {reason}." for reason, names in reasons.items()]
