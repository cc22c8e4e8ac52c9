"""Step and epoch time by batch size."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.results import StudyResults

TITLE = "Step and epoch time by batch size"
CAPTION = (
    "Left: time of one training step in steady state. Right: time of an epoch, computed as steps per epoch times "
    "step time, without validation. Points are geometric means over processes, bands and bars 95 % t-intervals."
)
CATEGORY = "Speed"
MOST_PANELS = 5
MOST_LINES = 8
SCALES = {"step_time": 1e3, "epoch_time": 1.0}


def draw(study: StudyResults) -> Figure:
    """A row per workload with several batch sizes (every workload, where none has several): step, then epoch."""
    cells = style.whole_data(study.measured[study.measured["epoch_time"].notna()])
    if cells.empty:
        return style.empty(study, "No training step was measured.")
    sizes = cells.groupby("workload", sort=False)["batch_size"].nunique()
    chosen = (sizes[sizes > 1] if (sizes > 1).any() else sizes).index.tolist()
    workloads = chosen[:MOST_PANELS]
    figure = style.new_figure(9, 2.3 * len(workloads) + 1.0)
    grid = figure.subplots(len(workloads), 2, squeeze=False)
    for row, workload in zip(grid, workloads, strict=True):
        own = style.fewer_lines(cells[cells["workload"] == workload], style.SERIES_AXES, MOST_LINES)
        _row(row, own, study)
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
    left_out = f"; {len(chosen) - MOST_PANELS} more workloads in the tables" if len(chosen) > MOST_PANELS else ""
    counts = style.runs_note(cells["n_timed"]).replace("bars:", "bands and bars:")
    style.footnote(figure, counts + fewer + left_out)
    return figure


def _row(panels: Sequence[Axes], own: pd.DataFrame, study: StudyResults) -> None:
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
