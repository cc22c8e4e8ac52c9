"""How good each trained model became, and what all of its learning took: time, money and energy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.figures import style
from whichdevice.figures.style import front
from whichdevice.results import StudyResults
from whichdevice.tables.base import CELL, epochs_text
from whichdevice.tables.sheet import SECONDS
from whichdevice.tables.statistics import geometric
from whichdevice.tables.time_to_target import START

TITLE = "Accuracy against time, money and energy"
CAPTION = (
    "Quality after the last learned epoch against all that it took: seconds from process start (start, data, model and "
    "compilation included), their price, and the energy of the epochs by the device's own meter, each with validation. "
    "One point is one cell: geometric mean over its learning runs with 95 % t-interval across, mean quality with the "
    "range of the runs up and down. Filled and joined by the grey steps: the Pareto front, which no other cell beats "
    "in both directions; grey dots: cells on it that are left to the tables. Money needs a price and energy "
    "a meter to have a panel."
)
CATEGORY = "Cost"
MOST_POINTS = 10
POINT = [*CELL, "source"]  # stand-in and real data are never averaged
SPENT = {"seconds": "seconds from process start", "usd": "US dollars", "joules": "joules of the epochs"}
MISSING = {"usd": "; no device has a price", "joules": "; no device has a meter"}
QUALITIES = {  # the first that a workload's runs have: column of table runs, its name, whether more is better
    "validation_metric": ("validation {}", True),
    "training_metric": ("training {}", True),
    "validation_loss": ("validation loss\n(lower is better)", False),
    "loss": ("training loss\n(lower is better)", False),
}


def draw(study: StudyResults) -> Figure:
    """A row per workload, a panel for each of time, money and energy that has data."""
    runs = _runs(study)
    if runs.empty:
        return style.empty(study, "No run has learned (train.epochs is 0, or every learning run failed).")
    shown = [name for name in SPENT if runs[name].notna().any()]
    if not shown:
        return style.empty(study, "Runs learned, but what it took is missing: parts of the start, prices and meters.")
    workloads = runs["workload"].drop_duplicates().tolist()
    figure = style.new_figure(9.2, 2.2 * len(workloads) + 1.0)
    grid = figure.subplots(len(workloads), len(shown), squeeze=False, sharey="row")
    left_out = 0
    for row, workload in zip(grid, workloads, strict=True):
        own = runs[runs["workload"] == workload]
        quality = next((name for name in QUALITIES if own[name].notna().any()), "loss")
        name, higher = QUALITIES[quality]
        points = _points(own.assign(quality=own[quality]))
        drawn = style.shared(points, MOST_POINTS)
        left_out += len(points) - len(drawn)
        looks = list(_looks(drawn, study))
        for axes, spent in zip(row, shown, strict=True):
            _panel(axes, points, looks, spent, higher)
            axes.set_xlabel(SPENT[spent] if workload == workloads[-1] else "")
        row[0].set_title(f"{workload}, {_epochs(own)}", parse_math=False)
        row[0].set_ylabel(name.format(own["metric"].iloc[0]), parse_math=False)
        handles = [Line2D([], [], label=label, ls="", **look) for label, _, look in looks]
        row[-1].legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7.5)
    counts = runs.groupby(POINT, dropna=False).size()
    n = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    cut = f"; {left_out} more cells in the tables" if left_out else ""
    missing = "".join(words for name, words in MISSING.items() if name not in shown)
    style.footnote(
        figure, f"n = {n} learning runs per point{'; no interval from one' if counts.min() == 1 else ''}{cut}{missing}"
    )
    return figure


def _runs(study: StudyResults) -> pd.DataFrame:
    """Each run that learned the largest share of its data: what all of its learning took."""
    runs = study.runs[(study.runs["status"] == "ok") & (study.runs["evidence"] == "measured")]
    runs = style.whole_data(runs[runs["learned_epochs"].notna()])
    hourly = study.costs.drop_duplicates("device").set_index("device")["usd_per_hour"]
    joules = study.epochs.groupby("run")["joules"].agg(lambda found: found.sum(skipna=False))
    seconds = runs["learning_time"] + runs[START].astype("float64").sum(axis=1, skipna=False)
    usd = seconds / SECONDS * runs["device"].map(hourly).astype("float64")
    return runs.assign(seconds=seconds, usd=usd, joules=runs["run"].map(joules).astype("float64"))


def _points(runs: pd.DataFrame) -> pd.DataFrame:
    """A row per cell: what it took with its interval, its mean quality with the range of the runs."""
    cell = runs.groupby(POINT, dropna=False, sort=False).ngroup()
    points = runs[~cell.duplicated()].set_index(cell[~cell.duplicated()])[[*POINT, "unit"]].copy()
    for name in SPENT:
        points[[name, f"{name}_low", f"{name}_high"]] = geometric(runs[name], cell)[["mean", "low", "high"]]
    points[["quality", "worst", "best"]] = runs["quality"].groupby(cell).agg(["mean", "min", "max"])
    return points


def _looks(points: pd.DataFrame, study: StudyResults) -> Iterator[tuple[str, pd.Series, dict[str, Any]]]:
    """Each cell with its label and look: a colour for each device, a marker for each cell."""
    colours = style.device_colours(study)
    labels = style.labels(points, [*style.SERIES_AXES, "batch_size", "source"])
    marks = style.markers(points["device"].tolist(), style.device_places(study))
    for label, marker, (_, point) in zip(labels, marks, points.iterrows(), strict=True):
        yield label, point, {"color": colours[point["device"]], "marker": marker}


def _panel(
    axes: Axes, points: pd.DataFrame, looks: list[tuple[str, pd.Series, dict[str, Any]]], spent: str, higher: bool
) -> None:
    """The front of all points; of these the ones with a look."""
    known = points[points[spent].notna() & points["quality"].notna()]
    best = known.iloc[front(known[spent].to_numpy(float), known["quality"].to_numpy(float), higher)]
    drawn = [(point, look) for _, point, look in looks if point.name in known.index]
    if len(best) > 1:
        axes.plot(best[spent], best["quality"], color=style.FAINT, lw=4, drawstyle="steps-post", zorder=1)
    hidden = best.drop([point.name for point, _ in drawn], errors="ignore")
    axes.plot(hidden[spent], hidden["quality"], ".", color=style.GREY, zorder=2)
    for point, look in drawn:
        across = np.array([[point[spent] - point[f"{spent}_low"]], [point[f"{spent}_high"] - point[spent]]])
        along = np.array([[point["quality"] - point["worst"]], [point["best"] - point["quality"]]])
        face = look["color"] if point.name in best.index else style.PAPER
        axes.errorbar(
            point[spent], point["quality"], xerr=across.clip(0) if np.isfinite(across).all() else None,
            yerr=along.clip(0) if along.any() else None, mfc=face, capsize=2, elinewidth=1, ls="", zorder=3, **look,
        )  # fmt: skip
    ends = [*best[spent], *(point[f"{spent}{end}"] for point, _ in drawn for end in ("", "_low", "_high"))]
    if ends:
        style.log_axis(axes, "x", ends)
    else:
        style.blank(axes, spent)


def _epochs(runs: pd.DataFrame) -> str:
    counts = runs["learned_epochs"]
    return epochs_text(counts.min(), counts.max(), bool(runs["cut"].fillna(False).any()))
