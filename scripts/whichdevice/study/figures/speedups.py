"""How many times as fast as this CPU each device is, for every workload."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.base.numbers import two
from whichdevice.decide import AskedWork, Row
from whichdevice.decide.decide import QUANTILES
from whichdevice.decide.decide import draws as joint_times
from whichdevice.study.figures import draws, style
from whichdevice.study.results import StudyResults

RATIO_TICKS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 1e4)
NUMBERS_SHARE = 0.25  # of a panel, in which the numbers stand


@draws(
    "How many times as fast as this CPU?",
    category="Pictures",
    caption=(
        "Time of one training step on this CPU divided by the time on each device (logarithmic; this CPU is 1), with "
        "80 % intervals. Filled points were measured here, hollow ones are forecasts."
    ),
)
def draw_speedups(study: StudyResults) -> Figure | str:
    """A panel per workload, a line per device."""
    panels = {style.work_title(answer.work): ratios(answer.work) for answer in study.answers}
    panels = {title: rows for title, rows in panels.items() if len(rows) > 1}
    if not panels:
        return "No CPU was measured beside another device: speed over this CPU needs one."
    devices = style.in_order(row for rows in panels.values() for row, _ in rows)
    figure, axes = style.device_panels(list(panels), devices)
    for panel, rows in zip(axes, panels.values(), strict=True):
        _panel(panel, rows, devices)
    drawn = [row for rows in panels.values() for row, _ in rows]
    style.kinds_legend(figure, ((row.kind, row.is_here) for row in drawn))
    figure.supxlabel(f"times as fast as this CPU; {style.formats(drawn)}")
    return figure


def ratios(work: AskedWork) -> list[tuple[Row, style.Interval]]:
    """Return the speed of each device over this CPU, its 80 % interval included; empty where no CPU was measured."""
    each_does_it = work.mode == "operation"  # all of several devices, so that a step takes as long as on one
    rows = [row for row in style.one_a_device(work) if row.priced[0] == 1 or not each_does_it]
    base = next((place for place, row in enumerate(rows) if row.is_here and row.kind == "cpu"), None)
    if base is None:
        return []
    steps = joint_times(rows)
    low, middle, high = np.quantile(steps[base] / steps, QUANTILES, axis=1)
    return [(row, style.Interval(*ends)) for row, *ends in zip(rows, middle, low, high, strict=True)]


def _panel(axes: Axes, rows: Sequence[tuple[Row, style.Interval]], devices: list[str]) -> None:
    axes.axvline(1, color=style.GREY, lw=1)
    for row, ratio in rows:
        place = devices.index(row.card)
        style.point(axes, ratio, style.Interval(place), row.kind, row.is_here)
        axes.text(
            0.99, place, f"{two(ratio.value)} ×", transform=axes.get_yaxis_transform(), ha="right", va="center",
            fontsize=7.5,
        )  # fmt: skip
    style.beside_words(axes, [end for _, ratio in rows for end in ratio], NUMBERS_SHARE, RATIO_TICKS)
