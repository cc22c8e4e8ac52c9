"""Training time against data-set size."""

from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.figures.style import grid_of
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words

TITLE = "Epoch time against data-set size"
CAPTION = (
    "Time of one training epoch, without validation, by the number of training examples: at the largest batch size "
    "that most devices measured, each device in the settings with the most sizes, of these the fastest. Filled "
    "markers: epochs run in full, mean without the first. Hollow markers: computed as steps per epoch times step time, "
    "with 95 % t-intervals over processes. The grey line is proportional to the size."
)
CATEGORY = "Speed"
MOST_PANELS = 6
SETTINGS = ["backend", "precision", "loop", "sequence_length"]


def draw(study: StudyResults) -> Figure:
    """A panel per workload that was measured on several shares of its data (every workload, where none was)."""
    cells = study.measured[study.measured["epoch_time"].notna() & study.measured["training_examples"].notna()]
    if cells.empty:
        return style.empty(study, "No epoch was measured.")
    shares = cells.groupby("workload", sort=False)["fraction"].nunique()
    found = (shares[shares > 1] if (shares > 1).any() else shares).index.tolist()
    workloads = found[:MOST_PANELS]
    across = min(3, len(workloads))
    down = -(-len(workloads) // across)
    figure = style.new_figure(max(7.5, 2.6 * across + 1.8), 3.0 * down + 1)
    panels = grid_of(figure, len(workloads), across)
    handles: dict[str, Artist] = {}
    shown = [_shown(cells[cells["workload"] == workload]) for workload in workloads]
    for panel, own in zip(panels, shown, strict=True):
        handles |= _panel(panel, own, study)
    panels[0].set_ylabel("epoch time (s)")
    figure.legend(list(handles.values()), list(handles), loc="outside right center")
    notes = ["computed: " + style.runs_note(pd.concat(shown)["n_timed"]).replace("bars:", "bands and bars:")]
    notes += ["run in full: mean of learning runs", *_left_out(cells, shown)]
    notes += [] if (shares > 1).any() else ["every workload was measured on one share of its data only"]
    notes += [f"{len(found) - MOST_PANELS} more workloads in the tables"] if len(found) > MOST_PANELS else []
    style.footnote(figure, "; ".join(notes))
    return figure


def _shown(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one workload's cells of one batch size and, for each device, of one setting, by size of the data."""
    devices = cells.groupby("batch_size")["device"].nunique()
    cells = cells[cells["batch_size"] == devices[devices == devices.max()].index.max()]
    parts = []
    for _, own in cells.groupby("device", sort=False):
        settings = [group for _, group in own.groupby(SETTINGS, dropna=False, sort=False)]
        parts.append(max(settings, key=lambda group: (len(group), -group["step_time"].min())))
    return pd.concat(parts).sort_values("training_examples", kind="stable")


def _left_out(cells: pd.DataFrame, shown: list[pd.DataFrame]) -> list[str]:
    """The devices that measured a workload at other batch sizes only."""
    words = []
    for own in shown:
        workload = own["workload"].iloc[0]
        missing = set(cells.loc[cells["workload"] == workload, "device"]) - set(own["device"])
        words += [f"{workload}: {', '.join(sorted(missing))} at other batch sizes only"] if missing else []
    return words


def _panel(axes: Axes, own: pd.DataFrame, study: StudyResults) -> dict[str, Artist]:
    colours, places = style.device_colours(study), style.device_places(study)
    handles: dict[str, Artist] = {}
    for device in own["device"].drop_duplicates():
        part = own[own["device"] == device]
        look: dict[str, Any] = {"color": colours[device], "marker": style.MARKERS[places[device] % 9], "ls": ""}
        x, computed = part["training_examples"].to_numpy(float), part["epoch_time"].to_numpy(float)
        axes.plot(x, computed[-1] * x / x[-1], color=style.PALE, lw=1.2, zorder=1)
        steps = part["epoch_time"] / part["step_time"]
        ends = {f"epoch_time_{end}": part[f"step_time_{end}"] * steps for end in ("low", "high")}
        hollow: dict[str, Any] = {"mfc": style.PAPER, "markersize": 8}
        drawn = style.with_band(axes, x, part.assign(**ends), "epoch_time", **hollow, **look)
        (full,) = axes.plot(x, part["learned_epoch_time"], markersize=4.5, zorder=4, **look)
        handles |= {f"{device}, computed": drawn, f"{device}, run in full": full}
    style.log_axis(axes, "x", own["training_examples"])
    style.log_axis(axes, "y", own["epoch_time"])
    axes.set_title("\n".join([f"{own['workload'].iloc[0]}, b{own['batch_size'].iloc[0]}", *_unusual(own)]))
    axes.title.set_parse_math(False)
    axes.set_xlabel("training examples")
    return handles


def _unusual(own: pd.DataFrame) -> list[str]:
    """A line for each device in other settings than the usual ones."""
    words = []
    for device, part in own.groupby("device", sort=False):
        named = [str(part[name].iloc[0]) for name in SETTINGS[:-1] if part[name].iloc[0] != style.USUAL[name]]
        named += length_words(part.iloc[0])
        words += [f"{device}: {', '.join(named)}"] if named else []
    return words
