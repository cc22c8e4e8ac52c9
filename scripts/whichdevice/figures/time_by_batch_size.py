"""Step and epoch time by batch size."""

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from whichdevice.figures import series, style
from whichdevice.figures.results import StudyResults

TITLE = "Step and epoch time by batch size"
CAPTION = (
    "Above: time of one training step in steady state. Below: time of an epoch, computed as steps per epoch times "
    "step time, without validation. Points are geometric means over processes, bars 95 % t-intervals."
)
CATEGORY = "Speed"
MOST_PANELS = 5
MOST_LINES = 8


def draw(study: StudyResults) -> Figure:
    """A column per workload with several batch sizes (every workload, where none has several)."""
    cells = series.whole_data(study.measured[study.measured["epoch_time"].notna()])
    if cells.empty:
        return style.empty(study, "No training step was measured.")
    sizes = cells.groupby("workload", sort=False)["batch_size"].nunique()
    chosen = (sizes[sizes > 1] if (sizes > 1).any() else sizes).index.tolist()
    workloads = chosen[:MOST_PANELS]
    figure = style.new_figure(max(6.5, 2.6 + 2.5 * len(workloads)), 5.2)
    grid = figure.subplots(2, len(workloads), squeeze=False, sharex="col")
    handles: dict[str, Artist] = {}
    for column, workload in enumerate(workloads):
        own = _fewer(cells[cells["workload"] == workload])
        for label, part, look in series.lines(own, study):
            part = part.sort_values("batch_size")
            for row, (name, scale) in enumerate([("step_time", 1e3), ("epoch_time", 1)]):
                panel = grid[row][column]
                bounded = part
                if name == "epoch_time":  # the same factor on the mean and both ends
                    steps = part["epoch_time"] / part["step_time"]
                    ends = {f"epoch_time_{end}": part[f"step_time_{end}"] * steps for end in ("low", "high")}
                    bounded = part.assign(**ends)
                series.with_interval(panel, part["batch_size"].to_numpy(float), bounded, name, scale, **look)
                handles.setdefault(label, panel.containers[-1])  # type: ignore[arg-type]
        grid[0][column].set_title(workload, parse_math=False)
        for row, (name, scale) in enumerate([("step_time", 1e3), ("epoch_time", 1)]):
            style.log_axis(grid[row][column], "y", own[name] * scale)
        series.batch_axis(grid[1][column], own["batch_size"])
        grid[1][column].set_xlabel("batch size")
    grid[0][0].set_ylabel("step time (ms)")
    grid[1][0].set_ylabel("epoch time (s), computed")
    figure.legend(list(handles.values()), list(handles), loc="outside right upper")
    cut = any(len(_fewer(own)) < len(own) for _, own in cells.groupby("workload"))
    fewer = "; some lines left to the tables" if cut else ""
    left_out = f"; {len(chosen) - MOST_PANELS} more workloads in the tables" if len(chosen) > MOST_PANELS else ""
    style.footnote(figure, style.runs_note(cells["n_ok"]) + fewer + left_out)
    return figure


def _fewer(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells of the first loop, backend and precision alone, one after the other, until few enough lines remain."""
    for axis in ["loop", "backend", "precision"]:
        if len(cells[series.SERIES_AXES].drop_duplicates()) > MOST_LINES:
            cells = cells[cells[axis] == cells[axis].iloc[0]]
    return cells
