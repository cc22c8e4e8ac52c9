"""The data of an answer on a live page: its rows with their joint draws, limits, and the sentences of its words.

report/live.js makes the decision anew from it for what the reader types. Draws are whole numbers: the logarithm of a
step's seconds, as decide.py rounds it.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from whichdevice.answer import Answer, Option, Reason, RuledOut, table, words
from whichdevice.answer.decide import (
    AVOID_USD,
    DEAREST_HOUR,
    DIGITS,
    HOUR,
    IN_TIME,
    LIKELY,
    NEAR,
    NEAR_SECONDS,
    NEAR_USD,
    POINT,
    QUANTILES,
    SURE,
    TOSS_UP,
    draws,
)
from whichdevice.answer.rows import DOES_NOT_FIT, Row
from whichdevice.numbers import time_words
from whichdevice.report import chart

LIMITS = {
    "near": NEAR,
    "near_usd": NEAR_USD,
    "avoid_usd": AVOID_USD,
    "near_seconds": NEAR_SECONDS,
    "in_time": IN_TIME,
    "likely": LIKELY,
    "sure": SURE,
    "certain": words.CERTAIN,
    "late": words.LATE,
    "max_lines": words.MAX_LINES,
    "toss_up": TOSS_UP,
    "dearest_hour": DEAREST_HOUR,
    "point": POINT,
    "quantiles": QUANTILES,
    "digits": DIGITS,
}


def live_data(answer: Answer) -> dict[str, Any]:
    """Return the answer for JSON."""
    work, wants = answer.work, answer.wants
    options = answer.options
    times = draws([option.row for option in options], floor=work.floor)
    here = next((number for number, option in enumerate(options) if option is answer.here), None)
    return {
        "workload": work.workload,
        "operation": work.mode == "operation",
        "unit": work.unit,
        "units_per_step": work.units_per_step,
        "amount": answer.amount.units / answer.amount.epochs,
        "epochs": answer.amount.epochs,
        "title": words.title(answer, "{amount}"),
        "head": table.head(answer),
        "here": here,
        "no_here": "" if answer.here is None else words.without_time(answer.here),
        "where": "" if answer.here is None else words.where(answer.here.row),
        "wants": {"by": wants.by, "deadline": wants.deadline / HOUR, "budget": wants.budget, "hour": wants.hour_usd},
        "free": wants.only_free,
        "spot": wants.spot if any(row.spot for row in work.rows) else None,
        "limits": LIMITS,
        "sentences": words.SENTENCES,
        "chart": chart.SIZES | {"axis": "time for the whole work"},
        "rows": [_row(option, own, answer) for option, own in zip(options, times, strict=True)],
    }


def _row(option: Option, times: np.ndarray, answer: Answer) -> dict[str, Any]:
    row = option.row
    steps = None if not row.step_time else np.round(np.log(times) * DIGITS).astype(int).tolist()
    prompts = (row.prefill_time or 0.0) / row.step_time / (answer.work.prompt or 1) if row.step_time else 0.0
    available = None if row.memory_available is None else row.memory_available / 1e9
    return {
        "device": row.device,
        "is_here": row.is_here,
        "rough": row.rough,
        "usd_per_hour": row.usd_per_hour,
        "provider": row.provider,
        "start_time": row.start_time,
        "session_hours": row.session_hours,
        "week_hours": row.week_hours,
        "spot": row.spot,
        "prompts": prompts,
        "memory": available,
        "no": _unusable(row),
        "use": words.name_words(option),
        "power": words.say("electricity") if row.price.kind == "electricity" else "",
        "rate": words.rate_words(answer, row) if row.step_time else "",
        "fits": words.fits_words(row),
        "tight": row.memory_tight,
        "needs": words.memory_of(row),
        "step": time_words(row.step_time, row.rough) if row.step_time else "–",
        "known": words.known_words(Option(row)),
        "waits": words.waiting(replace(answer, pick=option)),
        "steps": steps,
    }


def _unusable(row: Row) -> str | None:
    """Why it is no choice whatever is asked."""
    if row.evidence == DOES_NOT_FIT:
        return words.why_words(RuledOut(Reason.TIGHT if row.memory_tight else Reason.FITS))
    return row.reason or None if row.step_time is None else None
