"""How much faster each device is than the processor."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.figures import style
from whichdevice.results import StudyResults

TITLE = "Speed-up over the CPU"
CAPTION = (
    "Throughput (TFLOP/s for matrix products) of each device over the CPU's in the same settings, from repeats "
    "paired within the study: geometric mean with 95 % t-interval on a logarithmic axis, hollow where there is none. "
    "The words are the verdict of the one rule that judges every comparison here. In a study without a CPU, over its "
    "first device. Virtual replicas on one CPU are no device here."
)
CATEGORY = "Speed"
MOST_ROWS = 32


def draw(study: StudyResults) -> Figure:
    """A row per cell, a marker per device."""
    found = study.speedups[study.speedups["comparison"] == "device"]
    if found.empty:
        command = next(iter(study.absent.values()), None)
        return style.empty(study, "No two devices ran the same work in the same settings.", command)
    found = found.assign(unit=found["quantity"].map({"tflops": "product"}))
    rows = style.capped(found, MOST_ROWS, ["fraction", "batch_size"])
    baseline = str(found["baseline"].iloc[0])
    names = style.names(rows.assign(device=""))
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    devices = rows["compared"].drop_duplicates().tolist()
    figure = style.new_figure(9, (0.2 * len(devices) + 0.14) * len(places) + 1.5)
    axes = figure.add_subplot()
    colours, marks = style.device_colours(study), style.device_places(study)
    for name, (_, row) in zip(names, rows.iterrows(), strict=True):
        offset = (devices.index(row["compared"]) - (len(devices) - 1) / 2) * 0.8 / len(devices)
        _row(axes, places[name] + offset, row, colours[row["compared"]], style.MARKERS[marks[row["compared"]] % 9])
    axes.axvline(1, color=style.GREY, lw=1)
    axes.set_yticks(range(len(places)), list(places), fontsize=8, parse_math=False)
    axes.set_ylim(len(places) - 0.4, -0.6)
    extent = rows[["ratio", "ratio_low", "ratio_high"]].to_numpy(float).ravel()
    style.ratio_axis(axes, extent)
    axes.set_xlabel(f"times the speed of {baseline} (logarithmic)")
    axes.grid(False, axis="y")
    handles = [
        Line2D([], [], ls="", marker=style.MARKERS[marks[name] % 9], color=colours[name], label=name)
        for name in devices
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=min(len(devices), 6))
    more = f"; {len(rows)} of {len(found)} ratios, the largest sizes" if len(rows) < len(found) else ""
    more += style.left_out(found, rows)
    measured = "measured on " + " / ".join(rows["setting"].dropna().unique())
    style.footnote(
        figure, f"bars: 95 % t-interval over n pairs; no bar from one pair{more}; {measured}; {style.UNNAMED}"
    )
    return figure


def _row(axes: Axes, place: float, row: pd.Series, colour: str, marker: str) -> None:
    low, high = row["ratio_low"], row["ratio_high"]
    bounded = bool(low == low)
    if bounded:
        axes.plot([low, high], [place, place], color=colour, lw=2.2, solid_capstyle="butt")
    axes.plot(row["ratio"], place, marker, color=colour, mfc=colour if bounded else style.PAPER)
    ends = f" [{style.number(low)} – {style.number(high)}]" if bounded else ""
    text = f"×{style.number(row['ratio'])}{ends}, n = {row['n']}, {row['verdict']}"
    axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
