"""A picture of one answer: what the whole work costs against how long it takes, both logarithmic. SVG as text.

It is drawn twice, for a screen and for a phone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from whichdevice.base.numbers import time_words
from whichdevice.decide import Answer, Option
from whichdevice.decide.words import amount_words

BELOW, MARGIN = 40, 18  # of every picture
MIN_USD = 0.01  # what costs less or nothing is drawn here
AXIS_TIMES = (  # seconds that an axis may name, as far as there is room
    1, 5, 20, 60, 180, 600, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 16 * 3600, 86400, 2 * 86400, 4 * 86400, 8 * 86400,
    16 * 86400, 32 * 86400, 64 * 86400, 128 * 86400, 365 * 86400,
)  # fmt: skip
COSTS = (MIN_USD, *(one * 10.0**power for power in range(-2, 7) for one in (2, 5, 10)))  # USD
MAX_NAMES = 15  # of more choices, only those have names and bars that no other one beats in both time and cost
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

    wide: int = 640
    high: int = 320
    left: int = 62
    right: int = 110


@dataclass(frozen=True)
class Axis:
    """An axis: its values and their places, what it may name, and how that is written."""

    values: Sequence[float]
    place: "Scale"
    names: Sequence[float]
    written: Callable[[float], str]
    title: str


FRAMES = {"wide": Frame(), "narrow": Frame(wide=360, high=340, left=44, right=40)}


def chart(answer: Answer) -> str:
    """SVG elements with a point for each choice, and a bar for its interval if named; empty for fewer than two."""
    shown = [option for option in answer.choices if option.seconds and option.usd is not None]
    if len(shown) < 2:
        return ""
    ordered = sorted(shown, key=lambda one: (one is not answer.pick, not one.row.is_here, one.usd or 0.0))
    return "".join(_drawn(answer, ordered, name, frame) for name, frame in FRAMES.items())


def _drawn(answer: Answer, shown: Sequence[Option], name: str, frame: Frame) -> str:
    times = [end for option in shown for end in (option.seconds_low, option.seconds_high) if end]
    costs = [max(end or 0.0, MIN_USD) for option in shown for end in (option.usd_low, option.usd_high)]
    across, up = scale(times, frame.left, frame.wide - frame.right), scale(costs, frame.high - BELOW, MARGIN)
    parts = axes(
        frame, Axis(times, across, AXIS_TIMES, time_words, "time, with its start"),
        Axis(costs, up, COSTS, lambda usd: "free" if usd <= MIN_USD else f"{usd:,.10g}", "USD"),
    )  # fmt: skip
    places = [(across(one.seconds or 1.0), up(max(one.usd or 0.0, MIN_USD))) for one in shown]
    labels = boxes(places, [one is answer.pick for one in shown])
    for one, (x, y) in zip(shown, places, strict=True):
        kind = " ".join(["pick"] * (one is answer.pick) + ["measured" if one.row.is_here else "forecast"])
        parts.append(dot(one.device, x, y, kind))
        if one.on_front or one is answer.pick or len(shown) <= MAX_NAMES:
            left, right = (across(end or 1.0) for end in (one.seconds_low, one.seconds_high))
            low, high = (up(max(end or 0.0, MIN_USD)) for end in (one.usd_low, one.usd_high))
            parts.append(line(left, low, right, high, f"bar {kind}"))
            parts += name_beside(one.device, x, y, kind, labels, frame)
    return svg(name, frame, f"Cost against time of {len(shown)} devices for {amount_words(answer)}", parts)


def svg(name: str, frame: Frame, label: str, parts: Sequence[str]) -> str:
    """Return a picture of these parts; `name` is the class of its frame."""
    opening = f'<svg class="chart {name}" viewBox="0 0 {frame.wide} {frame.high}" role="img"'
    return f'{opening} aria-label="{escape(label)}">{"".join(parts)}</svg>'


def axes(frame: Frame, right: Axis, up: Axis) -> list[str]:
    """Return the grid and the names of both axes."""
    parts = []
    for value in ticks(right, APART[0]):
        x = right.place(value)
        parts.append(line(x, MARGIN, x, frame.high - BELOW, "grid"))
        parts.append(text(x, frame.high - BELOW + 16, right.written(value), "middle"))
    for value in ticks(up, APART[1]):
        y = up.place(value)
        parts.append(line(frame.left, y, frame.wide - frame.right, y, "grid"))
        parts.append(text(frame.left - 6, y + 4, up.written(value), "end"))
    parts.append(text(4, MARGIN - 4, up.title, "start"))
    parts.append(text(frame.wide - frame.right, frame.high - 6, right.title, "end"))
    return parts


def ticks(axis: Axis, apart: float) -> list[float]:
    """Return the ticks of an axis: those among the values, not too near to the one before or to the axis' unit."""
    named: list[float] = []
    for name in axis.names:
        place = axis.place(name)
        inside = min(axis.values) / 1.1 <= name <= max(axis.values) * 1.1 and place > MARGIN + 12
        if inside and (not named or abs(place - axis.place(named[-1])) >= apart):
            named.append(name)
    return named


def boxes(places: Sequence[tuple[float, float]], picks: Sequence[bool]) -> list[tuple[float, float, float, float]]:
    """Return the boxes of dots: left, top, right, bottom."""
    halves = [PICK_DOT if is_pick else DOT for is_pick in picks]
    return [(x - half, y - half, x + half, y + half) for half, (x, y) in zip(halves, places, strict=True)]


def dot(name: str, x: float, y: float, kind: str) -> str:
    """Return a dot, which tells its name to who points at it."""
    radius = PICK_DOT if "pick" in kind.split() else DOT
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"><title>{escape(name)}</title></circle>'


def name_beside(
    name: str, x: float, y: float, kind: str, taken: list[tuple[float, float, float, float]], frame: Frame
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
        if inside and not any(overlap(box, other) for other in taken):
            taken.append(box)
            return [text(right, below, name, anchor, kind)]
    return []


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether two boxes (left, low, right, high) overlap."""
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
