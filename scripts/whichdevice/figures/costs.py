"""What work costs: time, money and energy, per example and until a quality is reached."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.figures import draws, style
from whichdevice.figures.style import front
from whichdevice.results import StudyResults
from whichdevice.tables.base import CELL
from whichdevice.tables.hardware import SECONDS
from whichdevice.tables.time_to_target import LEARNED, START

MOST_LINES = 6
PANELS = {
    "seconds": "seconds from process start",
    "usd": "US dollars from process start",
    "joules": "joules of the epochs",
}
MISSING = {"usd": "; no device has a price", "joules": "; no device has a meter"}
LINE = [*CELL, "source"]  # one line each: stand-in and real data are never averaged
ROW = ["workload", "quantity", "target"]  # stand-in and real data may have targets of their own
NAMES = {
    "validation_metric": "validation {}",
    "metric": "training {}",
    "validation_loss": "validation loss",
    "loss": "training loss",
}


@draws(
    "What a quality takes",
    category="Cost",
    caption=(
        "Quality at the end of each learned epoch against the time since process start (start, data, model and "
        "compilation included), its price, and the energy of the epochs by the device's own meter, each with "
        "validation; logarithmic axes. A line is one cell, its seeds averaged as far as all of them learned, also "
        "those that ran out of time. The large marker is the epoch by which half the seeds reached the target "
        "(dotted); where they never did, or after the line ends, there is none. Grey: the Pareto front, which nothing "
        "here beats in both directions. Money needs a price and energy a meter to have a panel."
    ),
)
def draw_time_to_target(study: StudyResults) -> Figure:
    """A row per workload and target, a panel for each of time, money and energy that has data."""
    cells = style.whole_data(study.time_to_target)
    if cells.empty:
        return style.empty(study, "No run has learned (train.epochs is 0, or every learning run failed).")
    points = _time_to_target_points(study, cells)
    shown = [name for name in PANELS if points[name].notna().any()]
    if not shown:
        return style.empty(study, "Runs learned, but what it took is missing: parts of the start, prices and meters.")
    groups = [own for _, own in cells.groupby(ROW, dropna=False, sort=False)]
    figure = style.new_figure(max(7.5, 2.4 * len(shown) + 2.0), 2.35 * len(groups) + 1.0)
    grid = figure.subplots(len(groups), len(shown), squeeze=False, sharey="row")
    for row, own in enumerate(groups):
        lines = list(_lines(style.shared(own, MOST_LINES), study))
        for axes, name in zip(grid[row], shown, strict=True):
            _time_to_target_panel(axes, points, lines, name, own.iloc[0])
            if row == len(groups) - 1:
                axes.set_xlabel(PANELS[name])
        grid[row][0].set_title(_title(own, cells), parse_math=False)
        grid[row][0].set_ylabel(_quality(own.iloc[0]), parse_math=False)
        handles = [Line2D([], [], label=label, markersize=4, **look) for label, _, look in lines]
        grid[row][-1].legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7.5)
    seeds = cells["n_seeds"].dropna().astype(int)
    n = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    cut = any(len(own) > len(style.shared(own, MOST_LINES)) for own in groups)
    disturbed = int(cells["n_disturbed"].fillna(0).sum())
    marked = f"; {disturbed} of {int(cells['n'].sum())} runs disturbed while they learned" if disturbed else ""
    late = int(cells["n_timed_out"].fillna(0).sum())
    marked += "; more settings in the tables" if cut else ""
    marked += f"; {late} of {int(cells['n'].sum())} runs ran out of time" if late else ""
    missing = [words for name, words in MISSING.items() if name not in shown]
    style.footnote(figure, f"seeds per line: {n}{marked}{''.join(missing)}")
    return figure


def _time_to_target_points(study: StudyResults, cells: pd.DataFrame) -> pd.DataFrame:
    """Quality and what it took after each epoch of each cell, means over its runs; an epoch that all runs learned."""
    runs = study.runs[study.runs["status"].isin(LEARNED) & (study.runs["evidence"] == "measured")]
    hourly = study.costs.drop_duplicates("device").set_index("device")["usd_per_hour"]
    start = runs.set_index("run")[START].astype("float64").sum(axis=1, skipna=False)
    epochs = study.epochs[study.epochs["run"].isin(runs["run"])].sort_values(["run", "epoch"], kind="stable")
    epochs = epochs.merge(cells[[*LINE, "quantity"]], on=LINE)
    spent = epochs["seconds"] + epochs["validation_seconds"].fillna(0)
    seconds = spent.groupby(epochs["run"]).cumsum() + epochs["run"].map(start)
    quality = pd.Series(np.nan, epochs.index)
    for name, part in epochs.groupby("quantity"):
        quality.loc[part.index] = part[name]
    epochs = epochs.assign(
        quality=quality,
        seconds=seconds,
        usd=seconds / SECONDS * epochs["device"].map(hourly).astype("float64"),
        joules=epochs["joules"].groupby(epochs["run"]).cumsum(),
    )
    groups = epochs.groupby([*LINE, "epoch"], dropna=False, sort=False)
    points = groups[["quality", *PANELS]].mean().reset_index()
    runs_there = groups["run"].nunique().to_numpy()
    return points[runs_there == points.assign(n=runs_there).groupby(LINE, dropna=False)["n"].transform("max")]


def _lines(cells: pd.DataFrame, study: StudyResults) -> Iterator[tuple[str, pd.DataFrame, dict[str, Any]]]:
    """Each cell with its label and look: a colour for each device, a marker for each cell."""
    colours = style.device_colours(study)
    labels = style.labels(cells, [*style.SERIES_AXES, "batch_size", "source"])
    place = cells.groupby("device", sort=False).cumcount()
    marks = style.markers(cells["device"].tolist(), style.device_places(study))
    for label, number, marker, index in zip(labels, place, marks, cells.index, strict=True):
        cell = cells.loc[[index]]
        look = {"color": colours[cell["device"].iloc[0]], "marker": marker}
        yield label, cell, look | {"linestyle": ["-", "--", ":", "-."][number % 4]}


def _title(own: pd.DataFrame, cells: pd.DataFrame) -> str:
    """The workload and its target; where it has several, also whose data it is for."""
    workload = own["workload"].iloc[0]
    alone = len(own) == int((cells["workload"] == workload).sum())
    sources = [] if alone else [" and ".join(own["source"].dropna().unique())]
    return ", ".join([workload, *filter(None, sources), _target(own.iloc[0])])


def _time_to_target_panel(axes: Axes, points: pd.DataFrame, lines: list, name: str, first: pd.Series) -> None:
    higher, target = first["better"] == "higher", first["target"]
    drawn = []
    for _, row, look in lines:
        cell = row.iloc[0]
        curve = points.merge(row[LINE], on=LINE)
        curve = curve[curve[name].notna() & curve["quality"].notna()]
        axes.plot(curve[name], curve["quality"], markersize=3.5, zorder=3, **look)
        drawn.append(curve[[name, "quality"]])
        if cell["epochs_median"] < np.inf:
            last = curve[curve["epoch"] >= cell["epochs_median"]].head(1)
            axes.plot(last[name], last["quality"], look["marker"], color=look["color"], markersize=9, zorder=4)
    if pd.notna(target):
        axes.axhline(target, color=style.BLACK, ls=":", lw=1)
    values = pd.concat(drawn).to_numpy(float)
    if len(lines) > 1:
        _front(axes, values, higher)
    if len(values):
        style.log_axis(axes, "x", values[:, 0])
    else:
        style.blank(axes, name)
    if len(values) and not higher:
        style.log_axis(axes, "y", [*values[:, 1], *([] if pd.isna(target) else [float(target)])])


def _front(axes: Axes, points: np.ndarray, higher: bool) -> None:
    """What nothing beats in both directions, as steps."""
    if len(points) < 2:
        return
    best = points[front(points[:, 0], points[:, 1], higher)]
    axes.plot(best[:, 0], best[:, 1], color=style.FAINT, lw=5, drawstyle="steps-post", zorder=1, solid_capstyle="round")


def _target(row: pd.Series) -> str:
    if pd.isna(row["target"]):
        return str(row["target_source"]).split(":")[0]
    return f"target {style.number(row['target'])} ({str(row['target_source']).split(':')[0].split(';')[0]})"


def _quality(row: pd.Series) -> str:
    better = "" if row["better"] == "higher" else "\n(lower is better)"
    return NAMES[str(row["quantity"])].format(row["metric"]) + better
