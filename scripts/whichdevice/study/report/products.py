"""The rows that a reader multiplies in a page: hours and USD for another amount of work or another price of an hour.

`report/page.js` does it: (start + begun × amount) hours, × price of an hour × the share of them that is billed.
"""

from dataclasses import dataclass
from typing import Any

from whichdevice.base.numbers import time_words
from whichdevice.decide import Answer, Option
from whichdevice.decide.decide import HOUR
from whichdevice.decide.words import known_words, time_of, usd_of


@dataclass(frozen=True)
class Product:
    """A choice with its medians: seconds, and USD an hour; `billed` is the share of its hours that is paid.

    `session` is after how many hours it ends, where that decides.
    """

    device: str
    kind: str
    is_pick: bool
    step: float
    start: float
    begun: float
    price: float | None
    billed: float
    session: float | None
    words: dict[str, str]  # step, time, USD and source, as Python writes them


def products(answer: Answer) -> list[Product]:
    """Return a row for each choice that has a time, the pick first."""
    return [_product(option, answer) for option in answer.choices if option.begun]


def _product(option: Option, answer: Answer) -> Product:
    row = option.row
    begun, step = option.begun or 0.0, row.step_time or 0.0
    hours = (row.start_time + begun) / HOUR
    paid = (row.usd_per_hour or 0.0) * hours
    words = {
        "step": time_words(step, row.rough), "time": time_of(option, interval=False),
        "usd": usd_of(option, interval=False), "source": known_words(option),
    }  # fmt: skip
    billed = option.usd / paid if option.usd and paid else 1.0
    return Product(
        option.device, row.kind, option is answer.pick, step, row.start_time, begun, row.usd_per_hour, billed,
        None if answer.wants.only_free else row.session_hours, words,
    )  # fmt: skip


def typed_parts(answer: Answer) -> dict[str, Any]:
    """Return what a reader may change: the amount of work as it was counted, the deadline in hours, and the rows."""
    amount = answer.amount
    counted = f"{answer.work.unit}s in all" if amount.counted == "units" else amount.counted
    return {
        "counted": counted, "amount": amount.units if amount.count is None else amount.count,
        "deadline": answer.wants.deadline / HOUR, "rows": products(answer),
    }  # fmt: skip
