"""Cold against warm: what passes before the first step, the first step, and a step in steady state."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.base.numbers import time_words
from whichdevice.decide import AskedWork, Row
from whichdevice.decide.rows import Z80
from whichdevice.study.figures import draws, style
from whichdevice.study.results import StudyResults

BEFORE = ["start", "initialise", "load", "build"]
STAGES = {"start": "D", "first": "P"}  # and their markers; a steady step has its kind's
WORDS_SHARE = 0.34  # of a panel, in which they stand
START_TICKS = (1e-4, 1e-2, 1.0, 60.0, 3600.0)  # seconds


class Stages(NamedTuple):
    """The stages of a training on a device, in seconds; nan where not known."""

    row: Row
    start: style.Interval
    first: style.Interval
    steady: style.Interval


@draws(
    "Cold against warm",
    category="Pictures",
    caption=(
        "Seconds (logarithmic) until a device begins, of its first step with compilation where it was measured, and of "
        "each later step, with intervals. Process, device, data and model come first; elsewhere renting and set-up do."
    ),
)
def draw_cold_start(study: StudyResults) -> Figure | str:
    """A panel per training that was measured, a line per device."""
    trainings = [answer.work for answer in study.answers if answer.work.mode == "train"]
    panels = {style.work_title(work): stages(work, study.measured) for work in trainings}
    panels = {title: rows for title, rows in panels.items() if any(row.row.is_here for row in rows)}
    if not panels:
        return "No training was measured to its steady state."
    shown = dict(list(panels.items())[: style.MAX_PANELS])
    drawn = [one.row for rows in shown.values() for one in rows]
    devices = style.in_order(drawn)
    figure, axes = style.device_panels(list(shown), devices)
    for panel, rows in zip(axes, shown.values(), strict=True):
        _panel(panel, rows, devices)
    others = [
        Line2D([], [], ls="", marker=STAGES[name], ms=5, color=style.GREY, label=words)
        for name, words in (("start", "until it begins"), ("first", "first step, with compilation"))
    ]
    style.kinds_legend(figure, ((row.kind, row.is_here) for row in drawn), *others)
    more = f"; {len(panels) - len(shown)} more trainings in the tables" if len(panels) > len(shown) else ""
    figure.supxlabel(f"at the right: until it begins, then each step; renting and set-up elsewhere are assumed{more}")
    return figure


def stages(work: AskedWork, measured: pd.DataFrame) -> list[Stages]:
    """Return the stages of each device with a time; of a measured one from its fastest cell."""
    return [_here(work, row, measured) if row.is_here else _elsewhere(row) for row in style.one_a_device(work)]


def _elsewhere(row: Row) -> Stages:
    nothing = style.Interval(math.nan)
    start, step = _around(row.start_time, row.start_log_sd), _around(row.step_time or math.nan, row.spread)
    return Stages(row, start, nothing, step)


def _around(value: float, log_sd: float) -> style.Interval:
    apart = math.exp(Z80 * log_sd)
    return style.Interval(value, value / apart, value * apart)


def _here(work: AskedWork, row: Row, measured: pd.DataFrame) -> Stages:
    of_row = (measured["workload"] == work.workload) & (measured["batch_size"] == work.batch)
    of_row &= measured["device"].str.replace("_", " ") == row.card
    cells = measured[of_row & (measured["step_time"] == row.step_time)]
    if cells.empty:
        return _elsewhere(row)
    cell = cells.iloc[0]
    bounds = [[name, f"{name}_low", f"{name}_high"] for name in ("first_step", "step_time")]
    first, steady = (style.Interval(*cell[names]) for names in bounds)
    return Stages(row, style.Interval(float(cell[BEFORE].sum())), first, steady)


def _panel(axes: Axes, rows: Sequence[Stages], devices: list[str]) -> None:
    for row, start, first, steady in rows:
        place = style.Interval(devices.index(row.card))
        style.point(axes, start, place, row.kind, row.is_here, marker=STAGES["start"], ms=4.5)
        style.point(axes, first, place, row.kind, row.is_here, marker=STAGES["first"], ms=5.5)
        style.point(axes, steady, place, row.kind, row.is_here)
        words = f"{time_words(start.value)}, {time_words(steady.value)}"
        axes.text(0.99, place.value, words, transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=7)
    ends = [end for one in rows for part in one[1:] for end in part if end == end]
    style.beside_words(axes, ends, WORDS_SHARE, START_TICKS, time_words)
