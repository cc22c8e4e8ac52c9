"""How fast each device is: throughput, time by batch size and by data, cold start, predictions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from whichdevice.figures import draws, style
from whichdevice.figures.style import grid_of
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words
from whichdevice.tables.measured import UNTRAINED, enough_repeats, without_rehearsals


@draws(
    "Training throughput by model",
    category="Speed",
    caption=(
        "Examples per second in steady state for each model, sequence length and device, at the batch size that gave "
        "the most, of those with enough good repeats. Virtual replicas on one CPU are no device here. Units differ "
        "between panels: a sequence holds many time steps. Bars are geometric means over processes, whiskers 95 % "
        "t-intervals."
    ),
)
def draw_images_per_second(study: StudyResults) -> Figure:
    """A panel per unit, a bar per model and device."""
    trained = study.measured["throughput"].notna() & ~study.measured["unit"].isin(UNTRAINED)
    cells = style.whole_data(without_rehearsals(study.measured[trained]))
    if cells.empty:
        only = ", but on virtual replicas on a CPU" if trained.any() else ""
        return style.empty(study, f"No training throughput was measured{only}.")
    best = _fastest(cells)
    order = {name: place for place, name in enumerate(best["workload"].unique())}
    best = best.assign(place=best["workload"].map(order)).sort_values(["place", "sequence_length"], kind="stable")
    groups = [(unit, group) for unit, group in best.groupby("unit", sort=False)]
    heights = [len(group) + 1.4 for _, group in groups]
    figure = style.new_figure(9, 0.34 * sum(heights) + 1.3)
    panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, (unit, group) in zip(panels, groups, strict=True):
        _throughput_bars(panel, group, study)
        panel.set_title(f"{unit}s per second", parse_math=False)
    colours, places = style.device_colours(study), style.device_places(study)
    devices = [name for name in study.devices if name in set(best["device"])]
    if len(devices) > 1:
        hatches = {name: style.HATCHES[places[name] % 6] for name in devices}
        patches = [Patch(facecolor=colours[name], hatch=hatches[name], label=name) for name in devices]
        figure.legend(handles=patches, loc="outside upper right", ncols=len(patches))
    counts = style.runs_note(best["n_timed"]).replace("point", "bar").replace("bars:", "whiskers:")
    style.footnote(figure, counts)
    return figure


def _fastest(cells: pd.DataFrame) -> pd.DataFrame:
    """The fastest cell of each workload, length and device, of those with enough good repeats."""
    own = ["workload", "sequence_length", "device"]
    cells = cells[enough_repeats(cells["n_timed"], [cells[name] for name in own])]
    return cells.loc[cells.groupby(own, dropna=False, sort=False)["throughput"].idxmax()]


def _throughput_bars(axes: Axes, cells: pd.DataFrame, study: StudyResults) -> None:
    colours, places = style.device_colours(study), style.device_places(study)
    several = len(study.devices) > 1
    names = []
    for place, (_, cell) in enumerate(cells.iterrows()):
        device, value = cell["device"], cell["throughput"]
        axes.barh(place, value, color=colours[device], hatch=style.HATCHES[places[device] % 6], height=0.72)
        ends = np.array([[value - cell["throughput_low"]], [cell["throughput_high"] - value]])
        if np.isfinite(ends).all():
            axes.errorbar(value, place, xerr=ends, color=style.BLACK, capsize=2.5, lw=1)
        right = value if np.isnan(ends).any() else cell["throughput_high"]
        axes.annotate(style.number(value), (right, place), (6, 0), textcoords="offset points", va="center", fontsize=8)
        words = [cell["workload"], f"b{cell['batch_size']}", *length_words(cell)]
        words += [] if cell["precision"] == "float32" else [cell["precision"]]
        names.append(" ".join(words) + (f", {device}" if several else ""))
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(style.FuncFormatter(lambda value, _: style.number(value)))
    axes.grid(False, axis="y")


TIME_BY_BATCH_SIZE_MOST_PANELS = 5
MOST_LINES = 8
SCALES = {"step_time": 1e3, "epoch_time": 1.0}


@draws(
    "Step and epoch time by batch size",
    category="Speed",
    caption=(
        "Left: time of one training step in steady state. Right: time of an epoch, computed as steps per epoch times "
        "step time, without validation. Points are geometric means over processes, bands and bars 95 % t-intervals."
    ),
)
def draw_time_by_batch_size(study: StudyResults) -> Figure:
    """A row per workload with several batch sizes (every workload, where none has several): step, then epoch."""
    cells = style.whole_data(study.measured[study.measured["epoch_time"].notna()])
    if cells.empty:
        return style.empty(study, "No training step was measured.")
    sizes = cells.groupby("workload", sort=False)["batch_size"].nunique()
    chosen = (sizes[sizes > 1] if (sizes > 1).any() else sizes).index.tolist()
    workloads = chosen[:TIME_BY_BATCH_SIZE_MOST_PANELS]
    figure = style.new_figure(9, 2.3 * len(workloads) + 1.0)
    grid = figure.subplots(len(workloads), 2, squeeze=False)
    for row, workload in zip(grid, workloads, strict=True):
        own = style.fewer_lines(cells[cells["workload"] == workload], style.SERIES_AXES, MOST_LINES)
        _batch_size_row(row, own, study)
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
    left_out = (
        f"; {len(chosen) - TIME_BY_BATCH_SIZE_MOST_PANELS} more workloads in the tables"
        if len(chosen) > TIME_BY_BATCH_SIZE_MOST_PANELS
        else ""
    )
    counts = style.runs_note(cells["n_timed"]).replace("bars:", "bands and bars:")
    style.footnote(figure, counts + fewer + left_out)
    return figure


def _batch_size_row(panels: Sequence[Axes], own: pd.DataFrame, study: StudyResults) -> None:
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


TIME_BY_DATASET_SIZE_MOST_PANELS = 6
SETTINGS = ["backend", "precision", "loop", "sequence_length"]


@draws(
    "Epoch time against data-set size",
    category="Speed",
    caption=(
        "Time of one training epoch, without validation, by the number of training examples: at the largest batch "
        "size that most devices measured, each device in the settings with the most sizes, of these the fastest. "
        "Filled markers: epochs run in full, mean without the first. Hollow markers: computed as steps per epoch "
        "times step time, with 95 % t-intervals over processes. The grey line is proportional to the size."
    ),
)
def draw_time_by_dataset_size(study: StudyResults) -> Figure:
    """A panel per workload that was measured on several shares of its data (every workload, where none was)."""
    cells = study.measured[study.measured["epoch_time"].notna() & study.measured["training_examples"].notna()]
    if cells.empty:
        return style.empty(study, "No epoch was measured.")
    shares = cells.groupby("workload", sort=False)["fraction"].nunique()
    found = (shares[shares > 1] if (shares > 1).any() else shares).index.tolist()
    workloads = found[:TIME_BY_DATASET_SIZE_MOST_PANELS]
    across = min(3, len(workloads))
    down = -(-len(workloads) // across)
    figure = style.new_figure(max(7.5, 2.6 * across + 1.8), 3.0 * down + 1)
    panels = grid_of(figure, len(workloads), across)
    handles: dict[str, Artist] = {}
    shown = [_shown(cells[cells["workload"] == workload]) for workload in workloads]
    for panel, own in zip(panels, shown, strict=True):
        handles |= _dataset_size_panel(panel, own, study)
    panels[0].set_ylabel("epoch time (s)")
    figure.legend(list(handles.values()), list(handles), loc="outside right center")
    notes = ["computed: " + style.runs_note(pd.concat(shown)["n_timed"]).replace("bars:", "bands and bars:")]
    notes += ["run in full: mean of learning runs", *_left_out(cells, shown)]
    notes += [] if (shares > 1).any() else ["every workload was measured on one share of its data only"]
    notes += (
        [f"{len(found) - TIME_BY_DATASET_SIZE_MOST_PANELS} more workloads in the tables"]
        if len(found) > TIME_BY_DATASET_SIZE_MOST_PANELS
        else []
    )
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


def _dataset_size_panel(axes: Axes, own: pd.DataFrame, study: StudyResults) -> dict[str, Artist]:
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


COLD_START_MOST_ROWS = 24
STEADY_STEPS = 100
RATIO = 1.7  # of the panel's width to the longest cold start
PARTS = {
    "start": "start",
    "initialise": "take the device",
    "load": "load data",
    "build": "build model",
    "compile": "trace and compile",
    "one_step": "first step",
    "warm_up": "warm-up",
    "steady": f"{STEADY_STEPS} steady steps",
}
SHADES = [style.BLUE, style.PURPLE, style.SKY, style.GREEN, style.ORANGE, style.RED, style.FAINT, style.PALE]
HATCHES = ["", "xxx", "///", "...", "\\\\\\", "", "++", ""]


@draws(
    "Cold against warm, part by part",
    category="Speed",
    caption=(
        "Seconds from the start of a process on: importing the framework, taking the device (CUDA context, TPU "
        "system), opening the data, building the model, tracing and compiling (the first step less a steady one), the "
        "first step itself, the steps discarded as warm-up; then, pale, one hundred steps at steady speed, for scale, "
        "which may run off the panel (→). Geometric means over processes; no average of steps or epochs holds any of "
        "the cold parts."
    ),
)
def draw_cold_start(study: StudyResults) -> Figure:
    """A stacked bar per cell."""
    cells = style.whole_data(study.measured)
    cells = cells[cells["first_step"].notna()]
    if cells.empty:
        return style.empty(study, "No cold start was measured.")
    steady = cells["step_time"].clip(upper=cells["first_step"])
    parts = {"compile": cells["first_step"] - steady, "one_step": steady, "steady": STEADY_STEPS * cells["step_time"]}
    cells = cells.assign(**parts)
    looks = dict(zip(PARTS, zip(PARTS.values(), SHADES, HATCHES, strict=True), strict=True))
    figure, axes, shown, left = style.stacked_bars(cells, COLD_START_MOST_ROWS, looks)
    cold = left - shown["steady"].fillna(0).to_numpy(float)
    right = RATIO * cold.max()
    for place, (total, start) in enumerate(zip(left, cold, strict=True)):
        text = f"{style.number(start)} s + {style.number(total - start)} s{' →' if total > right else ''}"
        axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
    axes.set_xlim(0, right)
    axes.set_xlabel("seconds")
    figure.legend(loc="outside upper right", ncols=4)
    n, more = style.rows_note(cells, shown, "n_timed")
    style.footnote(figure, f"cold + warm, geometric means of n = {n} processes, no interval{more}; {style.UNNAMED}")
    return figure


INFERENCE_MOST_ROWS = 4
AXES = ["device", "backend", "precision", "loop", "sequence_length"]


@draws(
    "Inference: latency and throughput",
    category="Inference",
    caption=(
        "Left: time of a call with the smallest batch measured, median (point) and 99th percentile (stroke), where "
        "each process timed at least 100 calls. Right: predictions per second by batch size, one call at a time. "
        "Virtual replicas on one CPU are no device here. Points are geometric means over processes, whiskers 95 % "
        "t-intervals."
    ),
)
def draw_inference(study: StudyResults) -> Figure:
    """A row for each workload that predicted: latency on the left, throughput on the right."""
    cells = without_rehearsals(study.inference)
    if cells.empty:
        text = "No inference was measured: no workload of this study has mode: predict (docs/how-to/inference.md)."
        return style.empty(study, text)
    workloads = list(dict.fromkeys(cells["workload"]))
    shown = [
        style.fewer_lines(cells[cells["workload"] == name], AXES, MOST_LINES)
        for name in workloads[:INFERENCE_MOST_ROWS]
    ]
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
