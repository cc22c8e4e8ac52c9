"""The facts of an answer that a live page carries: its rows, the order of their normal numbers, limits, sentences.

report/decision.js decides anew from them for what the reader types; report/sentences.js makes the words.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from whichdevice.decide import Answer, Option, table, words
from whichdevice.decide.decide import (
    AVOID_USD,
    DIGITS,
    DRAWS,
    HOUR,
    IN_TIME,
    LIKELY,
    NEAR,
    NEAR_SECONDS,
    NEAR_USD,
    QUANTILES,
    SURE,
    TOSS_UP,
    lived_times,
)
from whichdevice.decide.interruptions import BACK_TIME, SAVE_TIME, STORAGE
from whichdevice.decide.rows import DOES_NOT_FIT, Z80, Row
from whichdevice.forecast.joint import FORM_SD, MAX_FORM, normal_order, normal_values
from whichdevice.study.report import chart

REPORT_FOLDER = Path(__file__).parent
LIMITS = {
    "near": NEAR,
    "near_usd": NEAR_USD,
    "back_time": BACK_TIME,
    "save_time": SAVE_TIME,
    "avoid_usd": AVOID_USD,
    "near_seconds": NEAR_SECONDS,
    "in_time": IN_TIME,
    "likely": LIKELY,
    "sure": SURE,
    "certain": words.CERTAIN,
    "late": words.LATE,
    "max_lines": words.MAX_LINES,
    "toss_up": TOSS_UP,
    "z80": Z80,
    "quantiles": QUANTILES,
    "digits": DIGITS,
    "form_sd": FORM_SD,
    "max_form": MAX_FORM,
}


def live_data(answer: Answer) -> dict[str, Any]:
    """Return the answer's facts for JSON."""
    work, wants = answer.work, answer.wants
    options = in_order(answer)
    here = next((number for number, option in enumerate(options) if option is answer.here), None)
    return {
        "workload": work.name,
        "operation": work.mode == "operation",
        "unit": work.unit,
        "lived": work.lived and work.lived.log_sd,
        "between": work.between,
        "amount": answer.amount.units / answer.amount.epochs,
        "epochs": answer.amount.epochs,
        "by_epochs": answer.amount.given and answer.amount.counted == "units",
        "title": words.title(answer, "{amount}"),
        "head": table.head(answer),
        "here": here,
        "no_here": "" if answer.here is None else words.without_time(answer.here),
        "where": "" if answer.here is None else words.where(answer.here.row),
        "wants": {"by": wants.by, "deadline": wants.deadline / HOUR},
        "free": wants.only_free,
        "port": wants.port,
        "nowhere": words.lines(answer) if answer.fits_nowhere else None,  # whatever the reader types
        "spot": wants.spot if any(row.spot for row in work.rows) else None,
        "limits": LIMITS,
        "sentences": _sentences(answer),
        "chart": chart.CHART_SIZES | {"axis": "time for the whole work, with its start"},
        "normals": normals((option.row for option in options), work.lived is not None),
        "rows": [_row(option, answer) for option in options],
    }


@cache
def _named() -> frozenset[str]:
    """Return the words of sentences.js, names of sentences among them."""
    return frozenset(re.findall(r"\w+", (REPORT_FOLDER / "sentences.js").read_text(encoding="utf-8")))


def _sentences(answer: Answer) -> dict[str, str]:
    """Return the sentences that sentences.js names, or makes the name of."""
    made = ("no_", "near_", "least_")
    sentences = words.sentences(answer)
    return {name: text for name, text in sentences.items() if name in _named() or name.startswith(made)}


def in_order(answer: Answer) -> list[Option]:
    """Return the options as the work has them: of two that are equal the first is taken, here as in Python."""
    places = {row.device: place for place, row in enumerate(answer.work.rows)}
    return sorted(answer.options, key=lambda option: places[option.device])


def normals(rows: Iterable[Row], lived: bool = False) -> dict[str, Any]:
    """Return the normal numbers that times and prices of these rows are drawn from, and their order for each part."""
    shared: list[tuple[str, ...]] = [("market",), *[("lived",)] * lived]
    parts = dict.fromkeys(shared)
    for row in rows:
        if row.step_time:
            software = _software(row)
            named: list[tuple[str, ...]] = [("shared", software), ("own", software, row.chip), ("price", row.market)]
            named += [("form", software, row.market)] * (row.market != row.chip) + [("taken",)] * row.spot
            parts |= dict.fromkeys(named)
            parts |= {("host", software): None} if row.host_time else {}
            parts |= {("start",): None} if row.start_log_sd or row.cores else {}
    orders = {"|".join(part): normal_order(DRAWS, 0, *part).tolist() for part in parts}
    return {"values": normal_values(DRAWS).tolist(), "orders": orders}


def _software(row: Row) -> str:
    """Return what shares the error of a row: a measured one shares it with none."""
    return row.chip if row.is_here else row.software


def _row(option: Option, answer: Answer) -> dict[str, Any]:
    """Return the facts of a row, and the words that depend on nothing the reader types."""
    row = option.row
    facts = {name: getattr(row, name) for name in ROW_FACTS}
    if answer.work.pipeline_rate:
        facts["floor"] = answer.work.floor(row), answer.work.floor_log_sd(row)
    return facts | {
        "times": answer.work.times(row),
        "units": answer.work.units_on(row),
        "device_time": row.device_time or row.step_time,
        "watts": row.power and row.power.total,
        "watts_log_sd": row.power and row.power.log_sd,
        "port": row.needs_port,
        "lived": lived_times(answer.work, row),
        "state_time": round(row.state_bytes / STORAGE),
        "software": _software(row),
        "prompts": (row.prefill_time or 0.0) / row.step_time / (answer.work.prompt or 1) if row.step_time else 0.0,
        "too_small": row.evidence == DOES_NOT_FIT,
        "use": words.name_words(option),
        "price_kind": row.price.kind,
        "called": words.called(row),
        "rate": words.rate_words(answer, row) if row.step_time else "",
        "known": words.known_words(option),
        "waits": words.waiting(replace(answer, pick=option)),
    }


ROW_FACTS = (
    "device", "priced", "card", "chip", "market", "is_here", "rough", "step_time", "log_sd_shared", "log_sd_own",
    "host_time", "host_log_sd", "fits", "memory_taken", "memory", "memory_tight", "usd_per_hour",
    "usd_log_sd_shared", "usd_log_sd_own", "provider", "kind", "spot", "session_hours", "week_hours",
    "start_time", "start_log_sd", "reason",
)  # fmt: skip
