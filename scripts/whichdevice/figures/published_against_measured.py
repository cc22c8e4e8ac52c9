"""Published figures beside the measured ones."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.figures import style
from whichdevice.figures.results import StudyResults

TITLE = "Published and measured"
CAPTION = (
    "Hollow diamonds: published figures, by the kind of device they were got on. Filled circles: what this study "
    "measured of the same workload and batch size. Small crosses: measured, but not alike (other length, epochs "
    "or data), so no ratio is given. Struck diamonds: published numbers that are physically doubtful. Sources and "
    "caveats stand in the table."
)
CATEGORY = "Published"
TIMES = {"s": 1.0, "ms": 1e-3, "us/sample": 1e-6}
PANELS = {"time (s)": "time", "TFLOP/s": "TFLOP/s", "share of images or characters": "fraction"}


def draw(study: StudyResults) -> Figure:
    """A panel for times, one for TFLOP/s, one for accuracies; a row per workload, batch size and metric."""
    found = study.published[study.published["value"].notna()].copy()
    found["scale"] = found["unit"].map(TIMES)
    found["panel"] = found["unit"].where(found["scale"].isna(), "time")
    found["scale"] = found["scale"].fillna(1.0)
    found = found[found["panel"].isin(PANELS.values()) & (found["metric"] != "tpu_init_time")]
    if found.empty:
        return style.empty(study, "There are no published figures to set beside the measured ones.")
    found["row"] = [_row(entry) for _, entry in found.iterrows()]
    groups = [(axis, found[found["panel"] == name]) for axis, name in PANELS.items() if (found["panel"] == name).any()]
    heights = [group["row"].nunique() + 1.8 for _, group in groups]
    figure = style.new_figure(9, 0.27 * sum(heights) + 1.4)
    panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, (axis, group) in zip(panels, groups, strict=True):
        _points(panel, group, style.device_colours(study))
        if axis != list(PANELS)[2]:
            measured = (group["measured"] * group["scale"]).dropna()
            style.log_axis(panel, "x", [*(group["value"] * group["scale"]), *measured])
        panel.set_xlabel(axis, fontsize=8)
    figure.legend(handles=_legend(study), loc="outside upper right", ncols=3, fontsize=7)
    style.footnote(figure, "" if found["measured"].notna().any() else "nothing measured yet")
    return figure


def _row(entry: pd.Series) -> str:
    size = "" if pd.isna(entry["published_batch_size"]) else f" b{entry['published_batch_size']}"
    per = " per image" if entry["unit"] == "us/sample" else ""
    return f"{entry['published_workload']}{size}: {entry['metric'].replace('_', ' ')}{per}"


def _points(axes: Axes, rows: pd.DataFrame, colours: dict[str, str]) -> None:
    names = rows["row"].drop_duplicates().tolist()
    for _, entry in rows.iterrows():
        place = names.index(entry["row"])
        value = entry["value"] * entry["scale"]
        colour = style.KIND_COLOURS.get(entry["device_class"], style.GREY)
        axes.plot(value, place - 0.14, "D", mfc="white", color=colour, markersize=5, mew=1.4)
        if entry["standing"] == "disputed":
            axes.plot(value, place - 0.14, "_", color=style.BLACK, markersize=11, mew=1.2)
        if entry["measured"] == entry["measured"]:
            alike = entry["ratio"] == entry["ratio"] or entry["standing"] == "disputed"
            colour = colours.get(entry["device"], style.GREY)
            look: dict[str, Any] = (
                {"marker": "o", "markersize": 5.5} if alike else {"marker": "x", "markersize": 4, "alpha": 0.8}
            )
            axes.plot(entry["measured"] * entry["scale"], place + 0.14, color=colour, ls="", **look)
    axes.set_yticks(range(len(names)), names, fontsize=7.5, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _legend(study: StudyResults) -> list[Line2D]:
    published = [
        Line2D([], [], ls="", marker="D", mfc="white", color=colour, mew=1.4, label=f"published, {kind}")
        for kind, colour in style.KIND_COLOURS.items()
    ]
    colours = style.device_colours(study)
    measured = [
        Line2D([], [], ls="", marker="o", color=colours[name], label=f"measured, {name}") for name in study.devices
    ]
    marks = [
        Line2D([], [], ls="", marker="x", markersize=4, color=style.GREY, label="measured, not alike"),
        Line2D([], [], ls="", marker="_", markersize=11, color=style.BLACK, label="published, doubtful"),
    ]
    return [*published, *measured, *marks]
