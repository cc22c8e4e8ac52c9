"""Training time against data-set size."""

from typing import Any

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from whichdevice.figures import series, style
from whichdevice.figures.results import StudyResults
from whichdevice.figures.tiles import grid_of

TITLE = "Epoch time against data-set size"
CAPTION = (
    "Time of one training epoch, without validation, by the number of training examples. Filled markers: epochs "
    "run in full, mean without the first. Hollow markers: computed as steps per epoch times step time, with 95 % "
    "t-intervals over processes. The grey line is proportional to the size."
)
CATEGORY = "Speed"
MOST_PANELS = 6


def draw(study: StudyResults) -> Figure:
    """A panel per workload that was measured on several shares of its data (every workload, where none was)."""
    cells = study.measured[study.measured["epoch_time"].notna() & study.measured["training_examples"].notna()]
    if cells.empty:
        return style.empty(study, "No epoch was measured.")
    shares = cells.groupby("workload", sort=False)["fraction"].nunique()
    workloads = (shares[shares > 1] if (shares > 1).any() else shares).index.tolist()[:MOST_PANELS]
    across = min(3, len(workloads))
    down = -(-len(workloads) // across)
    figure = style.new_figure(max(7.5, 2.6 * across + 1.8), 3.0 * down + 1)
    panels = grid_of(figure, len(workloads), across)
    colours, places = style.device_colours(study), style.device_places(study)
    handles: dict[str, Artist] = {}
    for panel, workload in zip(panels, workloads, strict=True):
        own = cells[cells["workload"] == workload].sort_values("training_examples")
        own = own[own["batch_size"] == own["batch_size"].max()]
        for device in own["device"].drop_duplicates():
            part = own[own["device"] == device].drop_duplicates("training_examples")
            look: dict[str, Any] = {"color": colours[device], "marker": style.MARKERS[places[device] % 9], "ls": ""}
            x, computed = part["training_examples"].to_numpy(float), part["epoch_time"].to_numpy(float)
            panel.plot(x, computed[-1] * x / x[-1], color=style.PALE, lw=1.2, zorder=1)
            steps = part["epoch_time"] / part["step_time"]
            ends = {f"epoch_time_{end}": part[f"step_time_{end}"] * steps for end in ("low", "high")}
            hollow: dict[str, Any] = {"mfc": style.PAPER, "markersize": 8}
            drawn = series.with_band(panel, x, part.assign(**ends), "epoch_time", **hollow, **look)
            (full,) = panel.plot(x, part["learned_epoch_time"], markersize=4.5, zorder=4, **look)
            handles |= {f"{device}, computed": drawn, f"{device}, run in full": full}
        style.log_axis(panel, "x", own["training_examples"])
        style.log_axis(panel, "y", own["epoch_time"])
        panel.set_title(f"{workload}, b{own['batch_size'].iloc[0]}", parse_math=False)
        panel.set_xlabel("training examples")
    panels[0].set_ylabel("epoch time (s)")
    figure.legend(list(handles.values()), list(handles), loc="outside right center")
    only = "" if (shares > 1).any() else "; every workload was measured on one share of its data only"
    counts = style.runs_note(cells["n_ok"]).replace("bars:", "bands and bars:")
    style.footnote(figure, f"computed: {counts}; run in full: mean of learning runs{only}")
    return figure
