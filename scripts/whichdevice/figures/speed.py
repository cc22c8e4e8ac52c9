"""How fast each device is: throughput, time by batch size and by data, cold start, predictions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from whichdevice.figures import draws, style
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words
from whichdevice.tables.measured import UNTRAINED, enough_repeats, without_rehearsals


@draws(
    "Training throughput by model",
    category="Speed",
    caption=(
        "Examples per second in steady state for each model, sequence length and device, at the batch size that gave "
        "the most, of those with enough good repeats. Virtual replicas on one CPU are no device here. Units differ "
        "between panels: a sequence holds many time steps. Bars are geometric means over processes, whiskers 95 % "
        "t-intervals."
    ),
)
def draw_images_per_second(study: StudyResults) -> Figure:
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
        _throughput_bars(panel, group, study)
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


def _throughput_bars(axes: Axes, cells: pd.DataFrame, study: StudyResults) -> None:
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


TIME_BY_BATCH_SIZE_MOST_PANELS = 5
MOST_LINES = 8
SCALES = {"step_time": 1e3, "epoch_time": 1.0}


@draws(
    "Step and epoch time by batch size",
    category="Speed",
    caption=(
        "Left: time of one training step in steady state. Right: time of an epoch, computed as steps per epoch times "
        "step time, without validation. Points are geometric means over processes, bands and bars 95 % t-intervals."
    ),
)
def draw_time_by_batch_size(study: StudyResults) -> Figure:
    """A row per workload with several batch sizes (every workload, where none has several): step, then epoch."""
    cells = style.whole_data(study.measured[study.measured["epoch_time"].notna()])
    if cells.empty:
        return style.empty(study, "No training step was measured.")
    sizes = cells.groupby("workload", sort=False)["batch_size"].nunique()
    chosen = (sizes[sizes > 1] if (sizes > 1).any() else sizes).index.tolist()
    workloads = chosen[:TIME_BY_BATCH_SIZE_MOST_PANELS]
    figure = style.new_figure(9, 2.3 * len(workloads) + 1.0)
    grid = figure.subplots(len(workloads), 2, squeeze=False)
    for row, workload in zip(grid, workloads, strict=True):
        own = style.fewer_lines(cells[cells["workload"] == workload], style.SERIES_AXES, MOST_LINES)
        _batch_size_row(row, own, study)
        row[0].set_title(workload, parse_math=False)
    for panel, text in zip(grid[0], ["step time (ms)", "epoch time (s), computed"], strict=True):
        panel.annotate(
            text, (1, 1), (0, 4), xycoords="axes fraction", textcoords="offset points", ha="right", fontsize=8.5
        )
    for panel in grid[-1]:
        panel.set_xlabel("batch size")
    parts = [own for _, own in cells.groupby("workload")]
    cut = any(len(style.fewer_lines(own, style.SERIES_AXES, MOST_LINES)) < len(own) for own in parts)
    fewer = "; some lines left to the tables" if cut else ""
    left_out = (
        f"; {len(chosen) - TIME_BY_BATCH_SIZE_MOST_PANELS} more workloads in the tables"
        if len(chosen) > TIME_BY_BATCH_SIZE_MOST_PANELS
        else ""
    )
    counts = style.runs_note(cells["n_timed"]).replace("bars:", "bands and bars:")
    style.footnote(figure, counts + fewer + left_out)
    return figure


def _batch_size_row(panels: Sequence[Axes], own: pd.DataFrame, study: StudyResults) -> None:
    """One workload's lines in both panels, and what they are beside them."""
    handles: dict[str, Artist] = {}
    steps = own["epoch_time"] / own["step_time"]  # the same factor on the mean and both ends
    ends = {f"epoch_time_{end}": own[f"step_time_{end}"] * steps for end in ("low", "high")}
    for label, part, look in style.lines(own.assign(**ends), study):
        part = part.sort_values("batch_size")
        for panel, (name, scale) in zip(panels, SCALES.items(), strict=True):
            handles[label] = style.with_band(panel, part["batch_size"].to_numpy(float), part, name, scale, **look)
    for panel, (name, scale) in zip(panels, SCALES.items(), strict=True):
        style.log_axis(panel, "y", own[name] * scale)
        style.batch_axis(panel, own["batch_size"])
    beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "fontsize": 7.5}
    panels[-1].legend(list(handles.values()), list(handles), **beside)


COLD_START_MOST_ROWS = 24
STEADY_STEPS = 100
RATIO = 1.7  # of the panel's width to the longest cold start
PARTS = {
    "start": "start",
    "initialise": "take the device",
    "load": "load data",
    "build": "build model",
    "compile": "trace and compile",
    "one_step": "first step",
    "warm_up": "warm-up",
    "steady": f"{STEADY_STEPS} steady steps",
}
SHADES = [style.BLUE, style.PURPLE, style.SKY, style.GREEN, style.ORANGE, style.RED, style.FAINT, style.PALE]
HATCHES = ["", "xxx", "///", "...", "\\\\\\", "", "++", ""]


@draws(
    "Cold against warm, part by part",
    category="Speed",
    caption=(
        "Seconds from the start of a process on: importing the framework, taking the device (CUDA context, TPU "
        "system), opening the data, building the model, tracing and compiling (the first step less a steady one), the "
        "first step itself, the steps discarded as warm-up; then, pale, one hundred steps at steady speed, for scale, "
        "which may run off the panel (→). Geometric means over processes; no average of steps or epochs holds any of "
        "the cold parts."
    ),
)
def draw_cold_start(study: StudyResults) -> Figure:
    """A stacked bar per cell."""
    cells = style.whole_data(study.measured)
    cells = cells[cells["first_step"].notna()]
    if cells.empty:
        return style.empty(study, "No cold start was measured.")
    steady = cells["step_time"].clip(upper=cells["first_step"])
    parts = {"compile": cells["first_step"] - steady, "one_step": steady, "steady": STEADY_STEPS * cells["step_time"]}
    cells = cells.assign(**parts)
    looks = dict(zip(PARTS, zip(PARTS.values(), SHADES, HATCHES, strict=True), strict=True))
    figure, axes, shown, left = style.stacked_bars(cells, COLD_START_MOST_ROWS, looks)
    cold = left - shown["steady"].fillna(0).to_numpy(float)
    right = RATIO * cold.max()
    for place, (total, start) in enumerate(zip(left, cold, strict=True)):
        text = f"{style.number(start)} s + {style.number(total - start)} s{' →' if total > right else ''}"
        axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
    axes.set_xlim(0, right)
    axes.set_xlabel("seconds")
    figure.legend(loc="outside upper right", ncols=4)
    n, more = style.rows_note(cells, shown, "n_timed")
    style.footnote(figure, f"cold + warm, geometric means of n = {n} processes, no interval{more}; {style.UNNAMED}")
    return figure
