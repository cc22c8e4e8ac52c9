"""Throughput by model."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from whichdevice.figures import style
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words
from whichdevice.tables.measured import UNTRAINED, enough_repeats, without_rehearsals

TITLE = "Training throughput by model"
CAPTION = (
    "Examples per second in steady state for each model, sequence length and device, at the batch size that gave the "
    "most, of those with enough good repeats. Virtual replicas on one CPU are no device here. Units differ between "
    "panels: a sequence holds many time steps. Bars are geometric means over processes, whiskers 95 % t-intervals."
)
CATEGORY = "Speed"


def draw(study: StudyResults) -> Figure:
    """A panel per unit, a bar per model and device."""
    trained = study.measured["throughput"].notna() & ~study.measured["unit"].isin(UNTRAINED)
    cells = style.whole_data(without_rehearsals(study.measured[trained]))
    if cells.empty:
        only = ", but on virtual replicas on a CPU" if trained.any() else ""
        return style.empty(study, f"No training throughput was measured{only}.")
    best = _fastest(cells)
    order = {name: place for place, name in enumerate(best["workload"].unique())}
    best = best.assign(place=best["workload"].map(order)).sort_values(["place", "sequence_length"], kind="stable")
    groups = [(unit, group) for unit, group in best.groupby("unit", sort=False)]
    heights = [len(group) + 1.4 for _, group in groups]
    figure = style.new_figure(9, 0.34 * sum(heights) + 1.3)
    panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, (unit, group) in zip(panels, groups, strict=True):
        _bars(panel, group, study)
        panel.set_title(f"{unit}s per second", parse_math=False)
    colours, places = style.device_colours(study), style.device_places(study)
    devices = [name for name in study.devices if name in set(best["device"])]
    if len(devices) > 1:
        hatches = {name: style.HATCHES[places[name] % 6] for name in devices}
        patches = [Patch(facecolor=colours[name], hatch=hatches[name], label=name) for name in devices]
        figure.legend(handles=patches, loc="outside upper right", ncols=len(patches))
    counts = style.runs_note(best["n_timed"]).replace("point", "bar").replace("bars:", "whiskers:")
    style.footnote(figure, counts)
    return figure


def _fastest(cells: pd.DataFrame) -> pd.DataFrame:
    """The fastest cell of each workload, length and device, of those with enough good repeats."""
    own = ["workload", "sequence_length", "device"]
    cells = cells[enough_repeats(cells["n_timed"], [cells[name] for name in own])]
    return cells.loc[cells.groupby(own, dropna=False, sort=False)["throughput"].idxmax()]


def _bars(axes: Axes, cells: pd.DataFrame, study: StudyResults) -> None:
    colours, places = style.device_colours(study), style.device_places(study)
    several = len(study.devices) > 1
    names = []
    for place, (_, cell) in enumerate(cells.iterrows()):
        device, value = cell["device"], cell["throughput"]
        axes.barh(place, value, color=colours[device], hatch=style.HATCHES[places[device] % 6], height=0.72)
        ends = np.array([[value - cell["throughput_low"]], [cell["throughput_high"] - value]])
        if np.isfinite(ends).all():
            axes.errorbar(value, place, xerr=ends, color=style.BLACK, capsize=2.5, lw=1)
        right = value if np.isnan(ends).any() else cell["throughput_high"]
        axes.annotate(style.number(value), (right, place), (6, 0), textcoords="offset points", va="center", fontsize=8)
        words = [cell["workload"], f"b{cell['batch_size']}", *length_words(cell)]
        words += [] if cell["precision"] == "float32" else [cell["precision"]]
        names.append(" ".join(words) + (f", {device}" if several else ""))
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(style.FuncFormatter(lambda value, _: style.number(value)))
    axes.grid(False, axis="y")
