"""Pictures of an answer about servers: what a million tokens cost over the load, and against the speed for one user.

Each is drawn twice, for a screen and for a phone; report/serving.js draws the same pictures anew.
"""

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise

from whichdevice.decide.serving import CURVES, Option, Serving, fastest_for_the_money, usd_over_load
from whichdevice.decide.serving_words import in_time
from whichdevice.study.report.chart import (
    APART,
    BELOW,
    COSTS,
    DOT,
    MARGIN,
    MAX_NAMES,
    PICK_DOT,
    Frame,
    Scale,
    line,
    name_beside,
    scale,
    text,
    ticks,
)

FRAMES = {"wide": Frame(), "narrow": Frame(wide=360, high=300, left=44, right=100)}
LOADS_AROUND, LOADS_ON_A_SIDE = 16.0, 64  # loads of a picture: up to so many times less and more than the load
RATES = tuple(one * 10.0**power for power in range(-4, 7) for one in (1, 2, 5))  # requests or tokens a second
BETWEEN_NAMES = 14  # of lines' ends
PICTURE_SIZES = {  # for report/serving.js
    "rates": RATES,
    "around": LOADS_AROUND,
    "on_a_side": LOADS_ON_A_SIDE,
    "between": BETWEEN_NAMES,
    "curves": CURVES,
}


def pictures(answer: Serving) -> str:
    """SVG elements of an answer; none without a pick that holds the targets."""
    if answer.pick is None or not answer.pick.server.safe:
        return ""
    drawn = [
        picture for draw in (over_load, against_speed) for name, frame in FRAMES.items()
        if (picture := draw(answer, name, frame))
    ]  # fmt: skip
    return "".join(drawn)


def over_load(answer: Serving, name: str, frame: Frame) -> str:
    """USD a million tokens over the load, of the cheapest devices: a line each, which its end names."""
    assert answer.pick is not None
    at = answer.load.rps or answer.pick.server.safe
    loads = [at * LOADS_AROUND ** (place / LOADS_ON_A_SIDE - 1) for place in range(2 * LOADS_ON_A_SIDE + 1)]
    made, unit = answer.load.made, answer.load.unit
    points = {
        device: [
            (load, usd / 1000 if made else usd) for load, usd in zip(loads, values, strict=True) if 0 < usd < math.inf
        ]
        for device, values in usd_over_load(answer, loads).items()
    }
    points = {device: curve for device, curve in points.items() if curve}
    if not points:
        return ""
    costs = [usd for curve in points.values() for _, usd in curve]
    across, up = scale(loads, frame.left, frame.wide - frame.right), scale(costs, frame.high - BELOW, MARGIN)
    of_up = f"USD a {'thousand' if made else 'million'} {unit}s"
    parts = _axes(frame, (loads, across), (costs, up), of_up, "requests a second")
    if answer.load.rps is not None:
        parts.append(line(across(at), MARGIN, across(at), frame.high - BELOW, "here"))
        parts.append(text(across(at) + 5, MARGIN + 10, "your load", "start"))
    ends = _apart([up(curve[-1][1]) for curve in points.values()])
    for place, ((device, curve), end) in enumerate(zip(points.items(), ends, strict=True)):
        places = " ".join(f"{across(load):.1f},{up(usd):.1f}" for load, usd in curve)
        parts.append(f'<polyline class="curve line{place}" points="{places}"/>')
        last = across(curve[-1][0]), up(curve[-1][1])
        parts.append(line(*last, frame.wide - frame.right + 8, end, f"leader line{place}"))
        parts.append(text(frame.wide - frame.right + 11, end + 4, device, "start", "name"))
    return _svg(name, frame, f"{of_up} over requests a second, of {', '.join(points)}", parts)


def against_speed(answer: Serving, name: str, frame: Frame) -> str:
    """USD a million tokens against tokens a second of one user: a dot each, a line through those that none beats."""
    shown = [
        option for option in answer.options if in_time(option) and option.server.one_user[1] and option.usd_million
    ]
    if len(shown) < 2:
        return ""
    front = fastest_for_the_money(shown)
    speeds, costs = [option.server.one_user[1] for option in shown], [option.usd_million or 0.0 for option in shown]
    across, up = scale(speeds, frame.left, frame.wide - frame.right / 2), scale(costs, frame.high - BELOW, MARGIN)
    when = "at your load" if answer.load.rps is not None else "when full"
    named = f"USD a million {answer.load.unit}s {when}"
    parts = _axes(frame, (speeds, across), (costs, up), named, "tokens a second for one user")

    def place(option: Option) -> tuple[float, float]:
        return across(option.server.one_user[1]), up(option.usd_million or 0.0)

    parts.append(f'<polyline class="front" points="{" ".join("{:.1f},{:.1f}".format(*place(one)) for one in front)}"/>')
    ordered = sorted(shown, key=lambda one: (one is not answer.pick, one not in front))
    halves = [PICK_DOT if one is answer.pick else DOT for one in ordered]
    taken = [(x - half, y - half, x + half, y + half) for half, (x, y) in zip(halves, map(place, ordered), strict=True)]
    for option in ordered:
        kind = "pick" if option is answer.pick else "front" if option in front else "other"
        x, y = place(option)
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{PICK_DOT if kind == "pick" else DOT}">')
        parts.append(f"<title>{escape(option.name)}</title></circle>")
        if kind != "other" or len(shown) <= MAX_NAMES:
            parts += name_beside(option.name, x, y, f"name {kind}", taken, frame)
    return _svg(name, frame, f"{named} against tokens a second for one user, of {len(shown)} choices", parts)


def _axes(
    frame: Frame, right: tuple[Sequence[float], Scale], up: tuple[Sequence[float], Scale], of_up: str, of_right: str
) -> list[str]:
    """Grid and names of both axes, each with its values and its scale."""
    parts = []
    for rate in ticks(RATES, *right, APART[0]):
        parts.append(line(right[1](rate), MARGIN, right[1](rate), frame.high - BELOW, "grid"))
        parts.append(text(right[1](rate), frame.high - BELOW + 16, f"{rate:,.10g}", "middle"))
    for usd in ticks(COSTS, *up, APART[1]):
        parts.append(line(frame.left, up[1](usd), frame.wide - frame.right, up[1](usd), "grid"))
        parts.append(text(frame.left - 6, up[1](usd) + 4, f"{usd:,.10g}", "end"))
    parts.append(text(4, MARGIN - 4, of_up, "start"))
    parts.append(text(frame.wide - frame.right, frame.high - 6, of_right, "end"))
    return parts


def _apart(places: Sequence[float]) -> list[float]:
    """Places of names, as near to their lines' ends as lets one read them."""
    moved = list(places)
    order = sorted(range(len(places)), key=lambda place: places[place])
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + BETWEEN_NAMES)
    return moved


def _svg(name: str, frame: Frame, label: str, parts: Sequence[str]) -> str:
    opening = f'<svg class="chart {name}" viewBox="0 0 {frame.wide} {frame.high}" role="img"'
    return f'{opening} aria-label="{escape(label)}">{"".join(parts)}</svg>'
