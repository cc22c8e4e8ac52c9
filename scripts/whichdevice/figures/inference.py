"""Latency of single predictions and throughput by batch size."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.results import StudyResults
from whichdevice.tables.measured import without_rehearsals

TITLE = "Inference: latency and throughput"
CAPTION = (
    "Left: time of a call with the smallest batch measured, median (point) and 99th percentile (stroke), where each "
    "process timed at least 100 calls. Right: predictions per second by batch size, one call at a time. Virtual "
    "replicas on one CPU are no device here. Points are geometric means over processes, whiskers 95 % t-intervals."
)
CATEGORY = "Inference"
MOST_ROWS = 4
MOST_LINES = 8
AXES = ["device", "backend", "precision", "loop", "sequence_length"]


def draw(study: StudyResults) -> Figure:
    """A row for each workload that predicted: latency on the left, throughput on the right."""
    cells = without_rehearsals(study.inference)
    if cells.empty:
        text = "No inference was measured: no workload of this study has mode: predict (docs/how-to/inference.md)."
        return style.empty(study, text)
    workloads = list(dict.fromkeys(cells["workload"]))
    shown = [style.fewer_lines(cells[cells["workload"] == name], AXES, MOST_LINES) for name in workloads[:MOST_ROWS]]
    heights = [max(2.6, 1.2 + 0.32 * len(_smallest(own))) for own in shown]
    figure = style.new_figure(9.5, 1.0 + sum(heights))
    grid = figure.subplots(len(shown), 2, squeeze=False, height_ratios=heights)
    for (left, right), own in zip(grid, shown, strict=True):
        _latency(left, _smallest(own), study)
        _throughput(right, own, study)
        left.set_title(str(own["workload"].iloc[0]), parse_math=False)
    cut = sum(map(len, shown)) < len(cells)
    style.footnote(figure, style.runs_note(cells["n_timed"]) + ("; the rest in tables/inference.csv" if cut else ""))
    return figure


def _smallest(own: pd.DataFrame) -> pd.DataFrame:
    return own[own["batch_size"] == own["batch_size"].min()]


def _latency(axes: Axes, cells: pd.DataFrame, study: StudyResults) -> None:
    colours, places = style.device_colours(study), style.device_places(study)
    for place, (_, cell) in enumerate(cells.iterrows()):
        device = str(cell["device"])
        look: dict[str, Any] = {"color": colours[device], "linestyle": "none", "capsize": 2.5, "elinewidth": 1}
        marker = style.MARKERS[places[device] % len(style.MARKERS)]
        whiskers = style.bars(cells.iloc[[place]], "latency_p50")
        axes.errorbar([cell["latency_p50"]], [place], xerr=whiskers, marker=marker, **look)
        axes.plot([cell["latency_p50"], cell["latency_p99"]], [place, place], color=style.GREY, lw=0.8, zorder=1)
        axes.plot(cell["latency_p99"], place, marker="|", markersize=9, color=style.BLACK, linestyle="none")
    style.log_axis(axes, "x", cells[["latency_p50", "latency_p99"]].to_numpy(float).ravel())
    axes.set_yticks(range(len(cells)), style.labels(cells, AXES), parse_math=False)
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.set_xlabel(f"latency at batch {cells['batch_size'].iloc[0]} (ms)")
    axes.grid(False, axis="y")


def _throughput(axes: Axes, cells: pd.DataFrame, study: StudyResults) -> None:
    for label, part, look in style.lines(cells, study):
        part = part.sort_values("batch_size")
        style.with_interval(axes, part["batch_size"].to_numpy(float), part, "throughput", label=label, **look)
    style.log_axis(axes, "y", cells["throughput"].to_numpy(float))
    style.batch_axis(axes, cells["batch_size"])
    axes.set_xlabel("batch size")
    axes.set_ylabel("predictions per second")
    axes.legend(fontsize=7.5)
