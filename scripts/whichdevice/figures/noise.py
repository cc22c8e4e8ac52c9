"""Every timed window of some runs: what was discarded, what counts, and how far windows and processes lie apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from whichdevice.figures import style
from whichdevice.figures.style import grid_of
from whichdevice.records.schema import Record
from whichdevice.results import StudyResults

TITLE = "Noise: every timed window"
CAPTION = (
    "Of each workload and device the cell with most processes, then most data, then the largest batch: step time of "
    "each timed window against the cell's mean, one strip for each process, windows from left to right as they were "
    "timed. Hollow: warm-up, discarded. Filled: steady state. Bar: the one number with which the process counts, its "
    "total time over its steps. Triangles lie beyond the panel. d: the machine disturbed the process, also when "
    "repeated. ↗, ↘: its step times still rose or fell when time was up. Both count."
)
CATEGORY = "Speed"
MOST_PANELS, MOST_PROCESSES = 12, 10
COLUMNS = 3
MANY_WINDOWS = 40
WIDTH = 0.76  # of a strip; 1 is the distance between two
LEAST_SPREAD = 0.03  # half the height of a panel, at least


def draw(study: StudyResults) -> Figure:
    """A panel for each workload and device: of its cells the one with most processes, most data, the largest batch."""
    panels = [(cell, records) for cell in _cells(study) if (records := _records(study, cell))]
    if not panels:
        return style.empty(study, "No run was timed.")
    shown = panels[:MOST_PANELS]
    across = min(COLUMNS, len(shown))
    figure = style.new_figure(max(9.0, 3.1 * across), 2.35 * -(-len(shown) // across) + 1.1)
    colours = style.device_colours(study)
    for axes, (cell, records) in zip(grid_of(figure, len(shown), COLUMNS), shown, strict=True):
        _panel(axes, records, colours[cell["device"]])
        axes.set_title(_title(cell), fontsize=8, parse_math=False)
    figure.supylabel("step time against the cell's mean", fontsize=8.5)
    figure.legend(handles=_legend(), loc="outside upper right", ncols=4)
    cells = int(study.measured["step_time"].notna().sum())
    more = f"; {len(shown)} of {cells} cells" if len(shown) < cells else ""
    style.footnote(
        figure,
        f"one strip a process, up to {MOST_PROCESSES}, in the order of repeats; d: disturbed; ↗ ↘: a trend left{more}",
    )
    return figure


def _cells(study: StudyResults) -> list[pd.Series]:
    cells = study.measured[study.measured["step_time"].notna()]
    ordered = cells.sort_values(["n_timed", "fraction", "batch_size"], ascending=False, kind="stable")
    kept = ordered.drop_duplicates(["workload", "device"])
    return [row for _, row in cells.loc[cells.index.isin(kept.index)].iterrows()]


def _records(study: StudyResults, cell: pd.Series) -> list[Record]:
    found = (study.record(run) for run in study.runs_of(cell))
    return [record for record in found if record and record.steady.windows][:MOST_PROCESSES]


def _title(cell: pd.Series) -> str:
    size = style.labels(pd.DataFrame([cell]), ["batch_size"])[0]
    loop = "" if cell["loop"] == "epoch" else f", {cell['loop']}"
    return f"{cell['workload']} on {cell['device']}\n{cell['backend']} {cell['precision']} {size}{loop}"


def _panel(axes: Axes, records: Sequence[Record], colour: str) -> None:
    counted = np.array([record.steady.seconds / record.steady.steps for record in records])
    mean = float(np.exp(np.log(counted).mean()))
    steady = [_relative(record.steady.windows, mean) for record in records]
    low, high = np.percentile(np.concatenate(steady), [1, 98])
    reach = (min(-LEAST_SPREAD, 1.2 * float(low)), max(LEAST_SPREAD, 1.2 * float(high)))
    for place, (record, values) in enumerate(zip(records, steady, strict=True), start=1):
        discarded = _relative(record.cold.warm_up, mean)
        at = place + WIDTH * (np.linspace(0, 1, len(discarded) + len(values)) - 0.5)
        _points(axes, at[: len(discarded)], discarded, reach, style.GREY, hollow=True)
        _points(axes, at[len(discarded) :], values, reach, colour, hollow=False)
        own = counted[place - 1] / mean - 1
        axes.hlines(own, place - 0.44, place + 0.44, color=style.BLACK, linewidth=1.4, zorder=4)
    axes.set_ylim(*reach)
    axes.set_xlim(0.4, len(records) + 0.6)
    axes.set_xticks(range(1, len(records) + 1), [_mark(record) for record in records], fontsize=7)
    for label, record in zip(axes.get_xticklabels(), records, strict=True):
        label.set_color(style.RED if "\n" in _mark(record) else style.BLACK)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:+.3g} %" if value else "0"))
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(False, axis="x")


def _relative(windows: Sequence[tuple[int, float]], mean: float) -> np.ndarray:
    return np.array([seconds / steps for steps, seconds in windows]) / mean - 1


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


def _mark(record: Record) -> str:
    """The number of the process, and below it what is to be known of it."""
    trend = {"rising": "↗", "falling": "↘"}.get(record.steady.trend or "", "")
    marks = ("d" if record.noise.disturbed else "") + trend
    return str(record.asked.repeat) + (f"\n{marks}" if marks else "")


def _legend() -> list[Line2D]:
    point: dict[str, Any] = {"linestyle": "none", "markersize": 4}
    return [
        Line2D([], [], marker="o", color=style.GREY, markerfacecolor="none", label="warm-up, discarded", **point),
        Line2D([], [], marker="o", color=style.BLUE, label="steady state", **point),
        Line2D([], [], color=style.BLACK, label="the process's number"),
        Line2D([], [], marker="^", color=style.GREY, markerfacecolor="none", label="beyond the panel", **point),
    ]
