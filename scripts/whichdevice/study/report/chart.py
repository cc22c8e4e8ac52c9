"""A picture of one answer: what the whole work costs against how long it takes, both logarithmic. SVG as text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from whichdevice.base.numbers import time_words
from whichdevice.decide import Answer, Option
from whichdevice.decide.words import amount_words

WIDE, HIGH, LEFT, RIGHT, BELOW, MARGIN = 640, 320, 62, 110, 40, 18
MIN_USD = 0.01  # what costs less or nothing is drawn here
AXIS_TIMES = (  # seconds that an axis may name, as far as there is room
    1, 5, 20, 60, 180, 600, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 16 * 3600, 86400, 2 * 86400, 4 * 86400, 8 * 86400,
    16 * 86400, 32 * 86400, 64 * 86400, 128 * 86400, 365 * 86400,
)  # fmt: skip
COSTS = (MIN_USD, *(one * 10.0**power for power in range(-2, 7) for one in (2, 5, 10)))  # USD
MAX_NAMES = 15  # of more choices, only those have names that no other one beats in both time and cost
APART = (60, 24)  # names of an axis, at least
DOT, LETTER = 4, 7.8  # half a dot, and a letter's width ...
PICK_DOT, PICK_LETTER = 6, 8.6  # ... of the pick, whose name is bold
NAME_ABOVE, NAME_BELOW, NAME_GAP = 11, 4, 4  # a name's box from its base line, and room next to it
ANCHORS = {"start": 0.0, "middle": 0.5, "end": 1.0}
PLACES = (  # of a name from its dot, the best first
    (10, 4, "start"), (-10, 4, "end"), (10, -6, "start"), (10, 14, "start"), (-10, -6, "end"), (-10, 14, "end"),
    (0, -9, "middle"), (0, 17, "middle"),
)  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """The size of a picture, and its margins left and right."""

    wide: int = WIDE
    high: int = HIGH
    left: int = LEFT
    right: int = RIGHT


USUAL = Frame()
CHART_SIZES = {  # for report/chart.js, which draws the same picture anew
    "wide": WIDE,
    "high": HIGH,
    "left": LEFT,
    "below": BELOW,
    "margin": MARGIN,
    "right": RIGHT,
    "min_usd": MIN_USD,
    "times": AXIS_TIMES,
    "costs": COSTS,
    "apart": APART,
    "max_names": MAX_NAMES,
    "dot": DOT,
    "letter": LETTER,
    "pick_dot": PICK_DOT,
    "pick_letter": PICK_LETTER,
    "name": {"above": NAME_ABOVE, "below": NAME_BELOW, "gap": NAME_GAP},
    "anchors": ANCHORS,
    "places": PLACES,
    "narrow": {"wide": 360, "high": 340, "left": 44, "right": 40},  # on a phone
}


def chart(answer: Answer) -> str:
    """An SVG element with a point for each choice and bars for intervals; empty for fewer than two choices."""
    shown = [option for option in answer.choices if option.seconds and option.usd is not None]
    if len(shown) < 2:
        return ""
    times = [end for option in shown for end in (option.seconds_low, option.seconds_high) if end]
    costs = [max(end or 0.0, MIN_USD) for option in shown for end in (option.usd_low, option.usd_high)]
    across, up = scale(times, LEFT, WIDE - RIGHT), scale(costs, HIGH - BELOW, MARGIN)
    label = escape(f"Cost against time of {len(shown)} devices for {amount_words(answer)}")
    parts = [f'<svg class="chart" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{label}">']
    for second in ticks(AXIS_TIMES, times, across, APART[0]):
        parts.append(line(across(second), MARGIN, across(second), HIGH - BELOW, "grid"))
        parts.append(text(across(second), HIGH - BELOW + 16, time_words(second), "middle"))
    for usd in ticks(COSTS, costs, up, APART[1]):
        parts.append(line(LEFT, up(usd), WIDE - RIGHT, up(usd), "grid"))
        parts.append(text(LEFT - 6, up(usd) + 4, "free" if usd <= MIN_USD else f"{usd:,.10g}", "end"))
    parts.append(text(LEFT - 6, MARGIN - 2, "USD", "end"))
    parts.append(text(WIDE - RIGHT, HIGH - 6, f"time for {amount_words(answer)}, with its start", "end"))
    ordered = sorted(shown, key=lambda one: (one is not answer.pick, not one.row.is_here, one.usd or 0.0))
    places = [(across(one.seconds or 1.0), up(max(one.usd or 0.0, MIN_USD))) for one in ordered]
    halves = [PICK_DOT if one is answer.pick else DOT for one in ordered]
    taken = [(x - half, y - half, x + half, y + half) for half, (x, y) in zip(halves, places, strict=True)]
    for one, (x, y) in zip(ordered, places, strict=True):
        parts += _point(one, one is answer.pick, x, y, across, up)
        if one.on_front or one is answer.pick or len(shown) <= MAX_NAMES:
            parts += name_beside(one.device, x, y, _kind(one, one is answer.pick), taken)
    return "".join([*parts, "</svg>"])


def ticks(names: Sequence[float], values: Sequence[float], place: "Scale", apart: float) -> list[float]:
    """Return the ticks of an axis: those among the values, not too near to the one before or to the axis' unit."""
    named: list[float] = []
    for name in names:
        inside = min(values) / 1.1 <= name <= max(values) * 1.1 and place(name) > MARGIN + 12
        if inside and (not named or abs(place(name) - place(named[-1])) >= apart):
            named.append(name)
    return named


def _kind(option: Option, pick: bool) -> str:
    return " ".join(["pick"] * pick + ["measured" if option.row.is_here else "forecast"])


def _point(option: Option, pick: bool, x: float, y: float, across: "Scale", up: "Scale") -> list[str]:
    """A dot, which has the device's name, and the ends of its intervals."""
    kind = _kind(option, pick)
    ends = [up(max(end or 0.0, MIN_USD)) for end in (option.usd_low, option.usd_high)]
    bar = line(across(option.seconds_low or 1.0), ends[0], across(option.seconds_high or 1.0), ends[1], f"bar {kind}")
    dot = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{PICK_DOT if pick else DOT}">'
    return [bar, f"{dot}<title>{escape(option.device)}</title></circle>"]


def name_beside(
    name: str, x: float, y: float, kind: str, taken: list[tuple[float, float, float, float]], frame: Frame = USUAL
) -> list[str]:
    """The name beside its dot, or none where it has no room; `taken` are boxes: left, top, right, bottom."""
    bold = "pick" in kind.split()
    wide, larger = (PICK_LETTER if bold else LETTER) * len(name), bold * (PICK_DOT - DOT)
    for across, down, anchor in PLACES:
        right, below = (math.copysign(larger, across), 0.0) if across else (0.0, math.copysign(larger, down))
        right, below = x + across + right, y + down + below
        if anchor == "middle":  # above or below its dot, and inside the picture
            half = wide / 2 + NAME_GAP + 1
            right = min(max(right, frame.left + half), frame.wide - half)
        left = right - wide * ANCHORS[anchor]
        box = (left - NAME_GAP, below - NAME_ABOVE, left + wide + NAME_GAP, below + NAME_BELOW)
        inside = box[0] > frame.left and box[2] < frame.wide and box[1] > 0 and box[3] < frame.high - BELOW + 4
        if inside and not any(_overlap(box, other) for other in taken):
            taken.append(box)
            return [text(right, below, name, anchor, kind)]
    return []


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


class Scale:
    """A logarithmic axis: a value's place in the picture."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self._low, self._span = math.log(low), max(math.log(high / low), 0.5)
        self._first, self._last = first, last

    def __call__(self, value: float) -> float:
        """The place of a value."""
        return self._first + (self._last - self._first) * (math.log(value) - self._low) / self._span


def scale(values: Sequence[float], first: float, last: float) -> Scale:
    """A logarithmic axis with some room around the values."""
    return Scale(min(values) / 1.15, max(values) * 1.15, first, last)


def line(x: float, y: float, other_x: float, other_y: float, kind: str) -> str:
    """A line of a kind of style.css."""
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{other_x:.1f}" y2="{other_y:.1f}"/>'


def text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    """A text of a kind of style.css."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
