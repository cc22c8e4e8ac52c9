"""The page: the default choice as Python answers it, all others as facts, which report/decision.js decides."""

import base64
import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from whichdevice.apps.explorer.answers import answer_for, targets, without
from whichdevice.apps.explorer.steps import GROUPS, MIXED, TRAININGS, KnownModel, known_models
from whichdevice.base.files import write_atomically
from whichdevice.base.sheets.hardware import HardwareRow, hardware_rows
from whichdevice.decide import Answer, Row, words
from whichdevice.forecast.targets import find_target
from whichdevice.study.config.model import FORECAST_DEVICES
from whichdevice.study.report.live import live_data, normals
from whichdevice.study.report.page import REPORT_FOLDER, Script, environment, live_script
from whichdevice.study.report.verdict import answer_parts

EXPLORER_FOLDER = Path(__file__).parent
DEFAULT = ("resnet50", MIXED, 128)
# Facts of a row that depend on the choice; all others are the same for an offer of a device.
NUMBERS = (
    "device_time", "step_time", "log_sd_shared", "log_sd_own", "host_time", "host_log_sd", "memory_taken",
    "memory", "watts", "state_time",
)  # fmt: skip
MARKS = ("fits", "rough", "memory_tight", "too_small", "known", "port")


Served = Callable[[str], Mapping[str, Any] | None]  # what answer/serving_words.py has on a page, of a model's name


def write_page(page: Path, names: Iterable[str] = (), served: Served = lambda _: None) -> None:
    """Write the page of these models and the default one, or of all; `served` says what serves one, if it can be."""
    wanted, models = {*names, DEFAULT[0]}, known_models()
    chosen = [model for model in models.values() if not names or model.name in wanted]
    sheet = hardware_rows()
    answers = _Answers(sheet)
    described = [answers.describe(model) | {"serving": _served(served(model.name))} for model in chosen]
    first = answers.first
    assert first is not None
    shown = answer_parts(first)
    shown["head"] = [*shown["head"][:4], "whole training", *shown["head"][5:]]
    common = {name: value for name, value in live_data(first).items() if name not in ("rows", "normals")}
    data = {
        "common": common | {"head": shown["head"], "normals": normals(answers.rows)}, "models": described,
        "usual": sorted({find_target(name).device for name in FORECAST_DEVICES}),
        "devices": [answers.offers[device] for device in sorted(answers.offers)], "notes": list(answers.notes),
    }  # fmt: skip
    batches = sorted({batch for model in models.values() for batch in model.batches})
    text = environment(EXPLORER_FOLDER).get_template("explorer.html").render(
        style=(REPORT_FOLDER / "style.css").read_text(encoding="utf-8"), live=live_script(),
        own=Script((EXPLORER_FOLDER / "explorer.js").read_text(encoding="utf-8")), answer=shown, data=_packed(data),
        models=described, total=len(models), default=DEFAULT, dates=_dates(sheet.values()), batches=batches,
        trainings=TRAININGS,
    )  # fmt: skip
    write_atomically(text, page)


class _Answers:
    """Answers of all choices as facts: what they have in common is kept once."""

    def __init__(self, sheet: dict[str, HardwareRow]) -> None:
        self._sheet, self._targets = sheet, targets()
        self.first: Answer | None = None  # of the default choice
        self.offers: dict[str, dict[str, Any]] = {}
        self.notes: dict[str, int] = {}
        self._parts: dict[tuple[str, str, str, bool, bool], Row] = {}

    @property
    def rows(self) -> Iterable[Row]:
        """Return a row for each part of the error that any choice has."""
        return self._parts.values()

    def describe(self, model: KnownModel) -> dict[str, Any]:
        """Return a model with the facts of each of its trainings and batches."""
        choices: dict[str, Any] = {}
        for training in model.steps:
            answers = {batch: answer_for(model, training, batch, self._targets, self._sheet) for batch in model.batches}
            if model.name == DEFAULT[0] and training == DEFAULT[1]:
                self.first = answers[DEFAULT[2]]
            formats = words.formats(next(iter(answers.values())).work.rows)
            batches = {batch: self._facts(answer, self._left_out(model, training)) for batch, answer in answers.items()}
            choices[training] = {"formats": formats, "batches": batches}
        return {
            "name": model.name, "group": GROUPS[model.library], "unit": model.unit, "tokens": model.tokens,
            "choices": choices,
        }  # fmt: skip

    def _left_out(self, model: KnownModel, training: str) -> list[str]:
        """Return a line for each reason why devices have no row."""
        reasons: dict[str, list[str]] = {}
        for target in self._targets:
            if reason := without(model, training, target):
                reasons.setdefault(reason, []).append(target.device)
        return [words.say("no_rows", devices=words.joined(names), reason=reason) for reason, names in reasons.items()]

    def _facts(self, answer: Answer, reasons: Iterable[str]) -> dict[str, Any]:
        live = live_data(answer)
        cards: dict[str, dict[str, Any]] = {}
        for row in live["rows"]:
            chosen = {name: row[name] for name in (*NUMBERS, *MARKS, "software")}
            cards.setdefault(row["card"], chosen)
            self.offers.setdefault(row["device"], {name: value for name, value in row.items() if name not in chosen})
        for row in answer.work.rows:
            if row.step_time:
                self._parts.setdefault((row.software, row.chip, row.market, bool(row.host_time), row.spot), row)
        names = list(cards)
        columns = {name: [_short(cards[card][name]) for card in names] for name in (*NUMBERS, *MARKS, "software")}
        notes = [self.notes.setdefault(line, len(self.notes)) for line in (*words.lasting_notes(answer), *reasons)]
        return {"cards": names, "columns": columns, "notes": notes}


def _served(parts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what of an answer about servers the page shows."""
    return None if parts is None else {name: parts[name] for name in ("title", "lines", "head", "cells", "notes")}


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _packed(data: dict[str, Any]) -> str:
    """Return data as text that a browser unpacks: JSON, compressed."""
    return base64.b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)).decode("ascii")


def _dates(rows: Iterable[HardwareRow]) -> str:
    days = sorted(str(offer.date) for row in rows for offer in row.offers)
    return f"Prices: the oldest is of {days[0]}, the newest of {days[-1]}."
