"""Latency and throughput of prediction services."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures import series, style
from whichdevice.figures.results import StudyResults

TITLE = "Prediction service: latency and throughput"
CAPTION = (
    "Left: latency of one client's requests by batch size, median and 99th percentile, beside a bare call of the model "
    "and a bare HTTP round trip of the same runs. Right: throughput against median latency, one point per number of "
    "clients, one line per batch size. Server and clients share the host; points are geometric means over processes, "
    "bars 95 % t-intervals, cut where they leave the panel."
)
CATEGORY = "Serving"
MOST_ROWS = 3
ROW = ["workload", "device", "backend", "precision"]
BESIDE = 1.6
MARGIN = 3.0  # beyond the points; bars of few processes can span many powers of ten
PARTS = {
    "p99": ("99th percentile", "^", ":"),
    "p50": ("median", "o", "-"),
    "bare_http_p50": ("bare HTTP", "s", "--"),
    "bare_call_p50": ("bare call", "D", "-."),
}


def draw(study: StudyResults) -> Figure:
    """A row for each workload, device, backend and number format that served."""
    cells = study.serving
    if cells.empty:
        text = "No prediction service was measured: no workload of this study has module serve (docs/serving.md)."
        return style.empty(study, text)
    groups = list(cells.groupby(ROW, sort=False))
    varied = [name for name in ROW[2:] if cells[name].nunique() > 1]
    shown = groups[:MOST_ROWS]
    figure = style.new_figure(9.0, 1.2 + 3.3 * len(shown))
    grid = figure.subplots(len(shown), 2, squeeze=False)
    colours = style.device_colours(study)
    for (left, right), ((workload, device, *_), own) in zip(grid, shown, strict=True):
        _latency(left, own[own["clients"] == own["clients"].min()], colours[str(device)])
        _throughput(right, own, colours[str(device)])
        fewest = own["clients"].min()
        settings = [str(own[name].iloc[0]) for name in varied]
        title = [f"{workload} on {device}", *settings, f"{fewest} client{'s' if fewest > 1 else ''}"]
        left.set_title(", ".join(title), parse_math=False)
    more = [" ".join(map(str, key)) for key, _ in groups[MOST_ROWS:]]
    left_out = f"; only in tables/serving.csv: {', '.join(more)}" if more else ""
    style.footnote(figure, style.runs_note(cells["n"]) + left_out)
    style.without_data(figure)  # the inputs are random
    return figure


def _latency(axes: Axes, cells: pd.DataFrame, colour: str) -> None:
    cells = cells.sort_values("batch_size")
    sizes = cells["batch_size"].to_numpy(float)
    for name, (label, marker, dashes) in PARTS.items():
        shade = colour if not name.startswith("bare") else style.GREY
        series.with_interval(axes, sizes, cells, name, 1e3, label=label, marker=marker, linestyle=dashes, color=shade)
    middles = (cells[list(PARTS)].to_numpy(float) * 1e3).ravel()
    style.log_axis(axes, "y", middles)
    axes.set_ylim(np.nanmin(middles) / MARGIN, np.nanmax(middles) * MARGIN)
    series.batch_axis(axes, cells["batch_size"])
    axes.set_xlabel("examples in a request")
    axes.set_ylabel("latency (ms)")
    axes.legend()


def _throughput(axes: Axes, cells: pd.DataFrame, colour: str) -> None:
    sizes = sorted(cells["batch_size"].unique())
    for turn, size in enumerate(sizes):
        own = cells[cells["batch_size"] == size].sort_values("clients")
        x, y = own["p50"].to_numpy(float) * 1e3, own["predictions_per_second"].to_numpy(float)
        marker, line = style.MARKERS[turn % len(style.MARKERS)], ["-", "--", ":", "-."][turn % 4]
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": line, "capsize": 2.5, "elinewidth": 1}
        across, up = series.bars(own, "p50", 1e3), series.bars(own, "predictions_per_second")
        axes.errorbar(x, y, xerr=across, yerr=up, label=f"{size}", **look)
        for place, clients in zip(zip(x, y, strict=True), own["clients"], strict=True):
            axes.annotate(f"{clients}", place, xytext=(4, 4), textcoords="offset points", fontsize=7, color=style.GREY)
    for which, column, scale in (("x", "p50", 1e3), ("y", "predictions_per_second", 1.0)):
        middles = cells[column].to_numpy(float) * scale
        style.log_axis(axes, which, middles)
        limits = np.nanmin(middles) / BESIDE, np.nanmax(middles) * BESIDE
        axes.set_xlim(*limits) if which == "x" else axes.set_ylim(*limits)
    axes.set_xlabel("median latency (ms); numbers: clients")
    axes.set_ylabel("predictions per second")
    axes.legend(title="examples in a request")
