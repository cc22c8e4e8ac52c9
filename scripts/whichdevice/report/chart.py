"""A picture of one answer: what the whole work costs against how long it takes, both logarithmic. SVG as text."""

import math
from collections.abc import Sequence
from html import escape

from whichdevice.answer import Answer, Option
from whichdevice.numbers import time_words, usd_words

WIDE, HIGH, LEFT, BELOW, MARGIN = 640, 300, 62, 40, 14
LEAST_USD = 0.01  # what costs less or nothing is drawn here
TIMES = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)  # seconds that an axis may name


SIZES = {  # for report/live.js, which draws the same picture anew
    "wide": WIDE,
    "high": HIGH,
    "left": LEFT,
    "below": BELOW,
    "margin": MARGIN,
    "right": 90,
    "least_usd": LEAST_USD,
    "times": TIMES,
}


def chart(answer: Answer) -> str:
    """An SVG element with a point for each choice and bars for intervals; empty for fewer than two choices."""
    shown = [each for each in answer.options if each.ruled_out is None and each.seconds and each.usd is not None]
    if len(shown) < 2:
        return ""
    times = [end for each in shown for end in (each.seconds_low, each.seconds_high) if end]
    costs = [max(end or 0.0, LEAST_USD) for each in shown for end in (each.usd_low, each.usd_high)]
    across, up = _scale(times, LEFT, WIDE - 90), _scale(costs, HIGH - BELOW, MARGIN)
    label = escape(f"Cost against time of {len(shown)} devices for {answer.amount.words}")
    parts = [f'<svg class="chart" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{label}">']
    for second in (each for each in TIMES if min(times) / 1.5 <= each <= max(times) * 1.5):
        parts.append(_line(across(second), MARGIN, across(second), HIGH - BELOW, "grid"))
        parts.append(_text(across(second), HIGH - BELOW + 16, time_words(second), "middle"))
    for power in range(math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs))) + 1):
        usd = 10.0**power
        if min(costs) / 1.5 <= usd <= max(costs) * 1.5:
            parts.append(_line(LEFT, up(usd), WIDE - 90, up(usd), "grid"))
            parts.append(_text(LEFT - 6, up(usd) + 4, "free" if usd <= LEAST_USD else usd_words(usd), "end"))
    parts.append(_text(LEFT - 6, MARGIN - 2, "USD", "end"))
    parts.append(_text(WIDE - 90, HIGH - 6, f"time for {answer.amount.words}", "end"))
    taken: list[tuple[float, float]] = []
    for each in sorted(shown, key=lambda one: one is not answer.pick):
        parts += _point(each, each is answer.pick, across, up, taken)
    return "".join([*parts, "</svg>"])


def _point(option: Option, pick: bool, across: "Scale", up: "Scale", taken: list[tuple[float, float]]) -> list[str]:
    """A dot, the ends of its intervals, and its name where no other name is."""
    x, y = across(option.seconds or 1.0), up(max(option.usd or 0.0, LEAST_USD))
    kind = " ".join(["pick"] * pick + ["measured" if option.row.is_here else "forecast"])
    ends = [up(max(end or 0.0, LEAST_USD)) for end in (option.usd_low, option.usd_high)]
    bar = _line(across(option.seconds_low or 1.0), ends[0], across(option.seconds_high or 1.0), ends[1], f"bar {kind}")
    place = y + 4
    while any(abs(place - other_y) < 11 and abs(x - other_x) < 95 for other_x, other_y in taken):
        place += 11
    taken.append((x, place))
    dot = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{6 if pick else 4}"/>'
    return [bar, dot, _text(x + 9, place, option.device, "start", kind)]


class Scale:
    """A logarithmic axis: a value's place in the picture."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self._low, self._span = math.log(low), max(math.log(high / low), 0.5)
        self._first, self._last = first, last

    def __call__(self, value: float) -> float:
        """The place of a value."""
        return self._first + (self._last - self._first) * (math.log(value) - self._low) / self._span


def _scale(values: Sequence[float], first: float, last: float) -> Scale:
    return Scale(min(values) / 1.15, max(values) * 1.15, first, last)


def _line(x: float, y: float, other_x: float, other_y: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{other_x:.1f}" y2="{other_y:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
