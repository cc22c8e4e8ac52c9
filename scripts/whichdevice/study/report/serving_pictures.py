"""Pictures of an answer about servers: what a million tokens cost over the load, and against the speed for one user.

Each is drawn twice, for a screen and for a phone.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from whichdevice.decide.serving import ServerOption, Serving, fastest_for_the_money, usd_over_load
from whichdevice.decide.words import in_time
from whichdevice.study.report.chart import (
    BELOW,
    COSTS,
    MARGIN,
    MAX_NAMES,
    Axis,
    Frame,
    axes,
    boxes,
    dot,
    line,
    name_beside,
    scale,
    svg,
    text,
)

FRAMES = {"wide": Frame(), "narrow": Frame(wide=360, high=300, left=44, right=100)}
LOADS_AROUND, LOADS_ON_A_SIDE = 16.0, 64  # loads of a picture: up to so many times less and more than the load
RATES = tuple(one * 10.0**power for power in range(-4, 7) for one in (1, 2, 5))  # requests or tokens a second
BETWEEN_NAMES = 14  # of lines' ends


def pictures(answer: Serving) -> str:
    """SVG elements of an answer; none without a pick that holds the targets."""
    if answer.pick is None or not answer.pick.row.safe:
        return ""
    drawn = [
        picture for draw in (over_load, against_speed) for name, frame in FRAMES.items()
        if (picture := draw(answer, name, frame))
    ]  # fmt: skip
    return "".join(drawn)


def over_load(answer: Serving, name: str, frame: Frame) -> str:
    """USD a million tokens over the load, of the cheapest devices: a line each, which its end names."""
    assert answer.pick is not None
    at = answer.load.rps or answer.pick.row.safe
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
    parts = axes(
        frame, Axis(loads, across, RATES, _written, "requests a second"), Axis(costs, up, COSTS, _written, of_up)
    )
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
    return svg(name, frame, f"{of_up} over requests a second, of {', '.join(points)}", parts)


def against_speed(answer: Serving, name: str, frame: Frame) -> str:
    """USD a million tokens against tokens a second of one user: a dot each, a line through those that none beats."""
    shown = [
        option for option in answer.options if in_time(option) and option.row.one_user[1] and option.usd_million
    ]
    if len(shown) < 2:
        return ""
    front = fastest_for_the_money(shown)
    speeds, costs = [option.row.one_user[1] for option in shown], [option.usd_million or 0.0 for option in shown]
    across, up = scale(speeds, frame.left, frame.wide - frame.right / 2), scale(costs, frame.high - BELOW, MARGIN)
    when = "at your load" if answer.load.rps is not None else "when full"
    named = f"USD a million {answer.load.unit}s {when}"
    right = Axis(speeds, across, RATES, _written, "tokens a second for one user")
    parts = axes(frame, right, Axis(costs, up, COSTS, _written, named))

    def place(option: ServerOption) -> tuple[float, float]:
        return across(option.row.one_user[1]), up(option.usd_million or 0.0)

    parts.append(f'<polyline class="front" points="{" ".join("{:.1f},{:.1f}".format(*place(one)) for one in front)}"/>')
    ordered = sorted(shown, key=lambda one: (one is not answer.pick, one not in front))
    taken = boxes([place(one) for one in ordered], [one is answer.pick for one in ordered])
    for option in ordered:
        kind = "pick" if option is answer.pick else "front" if option in front else "other"
        x, y = place(option)
        parts.append(dot(option.name, x, y, kind))
        if kind != "other" or len(shown) <= MAX_NAMES:
            parts += name_beside(option.name, x, y, f"name {kind}", taken, frame)
    return svg(name, frame, f"{named} against tokens a second for one user, of {len(shown)} choices", parts)


def _written(value: float) -> str:
    return f"{value:,.10g}"


def _apart(places: Sequence[float]) -> list[float]:
    """Places of names, as near to their lines' ends as lets one read them."""
    moved = list(places)
    order = sorted(range(len(places)), key=lambda place: places[place])
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + BETWEEN_NAMES)
    return moved
