"""Every timed window of some runs: what was discarded, what counts, and how far windows and processes lie apart."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from whichdevice.figures import draws, style
from whichdevice.figures.style import grid_of
from whichdevice.results import StudyResults
from whichdevice.tables.run_details import MOST_PROCESSES

MOST_PANELS = 12
COLUMNS = 3
MANY_WINDOWS = 40
WIDTH = 0.76  # of a strip; 1 is the distance between two
LEAST_SPREAD = 0.03  # half the height of a panel, at least


@draws(
    "Noise: every timed window",
    category="Speed",
    caption=(
        "Of each workload and device the cell with most processes, then most data, then the largest batch: step time "
        "of each timed window against the cell's mean, one strip for each process, windows from left to right as they "
        "were timed. Hollow: warm-up, discarded. Filled: steady state. Bar: the one number with which the process "
        "counts, its total time over its steps. Triangles lie beyond the panel. d: the machine disturbed the process, "
        "also when repeated. ↗, ↘: its step times still rose or fell when time was up. Both count."
    ),
)
def draw_noise(study: StudyResults) -> Figure:
    """A panel for each workload and device: of its cells the one with most processes, most data, the largest batch."""
    runs = study.runs.set_index("run").loc[study.windows["run"].drop_duplicates()]
    panels = [own for _, own in runs.groupby(["workload", "device"], sort=False)]
    if not panels:
        return style.empty(study, "No run was timed.")
    shown = panels[:MOST_PANELS]
    across = min(COLUMNS, len(shown))
    figure = style.new_figure(max(9.0, 3.1 * across), 2.35 * -(-len(shown) // across) + 1.1)
    colours = style.device_colours(study)
    for axes, own in zip(grid_of(figure, len(shown), COLUMNS), shown, strict=True):
        _panel(axes, own, study.windows, colours[own["device"].iloc[0]])
        axes.set_title(_title(own.iloc[0]), fontsize=8, parse_math=False)
    figure.supylabel("step time against the cell's mean", fontsize=8.5)
    figure.legend(handles=_legend(), loc="outside upper right", ncols=4)
    cells = int(study.measured["step_time"].notna().sum())
    more = f"; {len(shown)} of {cells} cells" if len(shown) < cells else ""
    style.footnote(
        figure,
        f"one strip a process, up to {MOST_PROCESSES}, in the order of repeats; d: disturbed; ↗ ↘: a trend left{more}",
    )
    return figure


def _title(cell: pd.Series) -> str:
    size = style.labels(pd.DataFrame([cell]), ["batch_size"])[0]
    loop = "" if cell["loop"] == "epoch" else f", {cell['loop']}"
    return f"{cell['workload']} on {cell['device']}\n{cell['backend']} {cell['precision']} {size}{loop}"


def _panel(axes: Axes, runs: pd.DataFrame, windows: pd.DataFrame, colour: str) -> None:
    counted = runs["step_time"].to_numpy(float)
    mean = float(np.exp(np.log(counted).mean()))
    parts = [_relative(windows[windows["run"] == name], mean) for name in runs.index]
    low, high = np.percentile(np.concatenate([steady for _, steady in parts]), [1, 98])
    reach = (min(-LEAST_SPREAD, 1.2 * float(low)), max(LEAST_SPREAD, 1.2 * float(high)))
    for place, (discarded, values) in enumerate(parts, start=1):
        at = place + WIDTH * (np.linspace(0, 1, len(discarded) + len(values)) - 0.5)
        _points(axes, at[: len(discarded)], discarded, reach, style.GREY, hollow=True)
        _points(axes, at[len(discarded) :], values, reach, colour, hollow=False)
        own = counted[place - 1] / mean - 1
        axes.hlines(own, place - 0.44, place + 0.44, color=style.BLACK, linewidth=1.4, zorder=4)
    marks = [_mark(run) for _, run in runs.iterrows()]
    axes.set_ylim(*reach)
    axes.set_xlim(0.4, len(runs) + 0.6)
    axes.set_xticks(range(1, len(runs) + 1), marks, fontsize=7)
    for label, mark in zip(axes.get_xticklabels(), marks, strict=True):
        label.set_color(style.RED if "\n" in mark else style.BLACK)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:+.3g} %" if value else "0"))
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(False, axis="x")


def _relative(windows: pd.DataFrame, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Step times of the discarded and of the steady windows of one run, against the mean."""
    times = windows["seconds"].to_numpy(float) / windows["steps"].to_numpy(float) / mean - 1
    warm_up = windows["warm_up"].to_numpy(bool)
    return times[warm_up], times[~warm_up]


def _points(
    axes: Axes, at: np.ndarray, values: np.ndarray, reach: tuple[float, float], colour: str, hollow: bool
) -> None:
    """Points; those beyond the panel as triangles at its edge."""
    many = len(values) > MANY_WINDOWS  # as an image: thousands of shapes would swell the page
    size = 4 if many else 9
    look: dict[str, Any] = {"edgecolors": colour, "linewidths": 0.7, "zorder": 3, "rasterized": many}
    look["facecolors"] = "none" if hollow else colour
    inside = (values >= reach[0]) & (values <= reach[1])
    axes.scatter(at[inside], values[inside], s=size, **look)
    for marker, beyond, end in [("^", values > reach[1], reach[1]), ("v", values < reach[0], reach[0])]:
        axes.scatter(at[beyond], np.full(beyond.sum(), end), s=14, marker=marker, clip_on=False, **look)


def _mark(run: pd.Series) -> str:
    """The number of the process, and below it whether it was disturbed or kept a trend."""
    trend = {"rising": "↗", "falling": "↘"}.get(run["trend"], "")
    marks = ("d" if pd.notna(run["disturbed"]) and run["disturbed"] else "") + trend
    return str(run["repeat"]) + (f"\n{marks}" if marks else "")


def _legend() -> list[Line2D]:
    point: dict[str, Any] = {"linestyle": "none", "markersize": 4}
    return [
        Line2D([], [], marker="o", color=style.GREY, markerfacecolor="none", label="warm-up, discarded", **point),
        Line2D([], [], marker="o", color=style.BLUE, label="steady state", **point),
        Line2D([], [], color=style.BLACK, label="the process's number"),
        Line2D([], [], marker="^", color=style.GREY, markerfacecolor="none", label="beyond the panel", **point),
    ]
