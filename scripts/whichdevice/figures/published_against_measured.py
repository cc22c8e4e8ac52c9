"""Published figures beside the measured ones."""

from collections.abc import Set
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.figures import style
from whichdevice.results import StudyResults
from whichdevice.tables.audit import IMPOSSIBLE, KEY

TITLE = "Published and measured"
CAPTION = (
    "Hollow: published figures, by the kind of device they were got on (circle CPU, square GPU, diamond TPU). Filled: "
    "what this study measured of the same workload and batch size, with 95 % t-interval where there is one. Small and "
    "pale: measured, but not comparable (other length, epochs or data), so no ratio is given. Struck through: beyond "
    "the peak of the device that the source names. Sources, caveats and reasons are in the audit."
)
CATEGORY = "Published"
MARKS = {"cpu": "o", "gpu": "s", "tpu": "D"}
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
    keys = study.audit.loc[study.audit["possible"] == IMPOSSIBLE, KEY].astype("object")
    impossible = set(keys.where(keys.notna(), None).itertuples(index=False, name=None))
    panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, (axis, group) in zip(panels, groups, strict=True):
        _points(panel, group, style.device_colours(study), impossible)
        if axis != list(PANELS)[2]:
            measured = (group["measured"] * group["scale"]).dropna()
            style.log_axis(panel, "x", [*(group["value"] * group["scale"]), *measured])
        panel.set_xlabel(axis, fontsize=8)
    figure.legend(handles=_legend(study), loc="outside upper right", ncols=3, fontsize=7)
    counts = style.runs_note(found.loc[found["measured"].notna(), "n"]) or "nothing measured yet"
    style.footnote(figure, counts.replace("; bars:", "; bars of steps and throughput:"))
    return figure


def _row(entry: pd.Series) -> str:
    size = "" if pd.isna(entry["published_batch_size"]) else f" b{entry['published_batch_size']}"
    per = " per image" if entry["unit"] == "us/sample" else ""
    return f"{entry['published_workload']}{size}: {entry['metric'].replace('_', ' ')}{per}"


def _points(axes: Axes, rows: pd.DataFrame, colours: dict[str, str], impossible: Set[tuple[Any, ...]]) -> None:
    names = rows["row"].drop_duplicates().tolist()
    for _, entry in rows.iterrows():
        place = names.index(entry["row"])
        value = entry["value"] * entry["scale"]
        colour, marker = style.KIND_COLOURS[entry["device_class"]], MARKS[entry["device_class"]]
        axes.plot(value, place - 0.16, marker, mfc=style.PAPER, color=colour, markersize=5, mew=1.4)
        if tuple(entry[KEY].astype("object").where(entry[KEY].notna(), None)) in impossible:
            axes.plot(value, place - 0.16, "_", color=style.BLACK, markersize=12, mew=1.4)
        if entry["measured"] == entry["measured"]:
            _measured(axes, entry, place + 0.16, colours.get(entry["device"], style.GREY))
    axes.set_yticks(range(len(names)), names, fontsize=7.5, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _measured(axes: Axes, entry: pd.Series, place: float, colour: str) -> None:
    """Draw it filled and with its interval where it is comparable, small and pale where it is not."""
    comparable = entry["ratio"] == entry["ratio"] or entry["standing"] == "disputed"
    look: dict[str, Any] = {"markersize": 5.5} if comparable else {"markersize": 3, "alpha": 0.55}
    ends = [entry["measured_low"] * entry["scale"], entry["measured_high"] * entry["scale"]]
    axes.plot(ends, [place, place], color=colour, lw=1.2)
    axes.plot(entry["measured"] * entry["scale"], place, MARKS.get(entry["kind"], "o"), color=colour, **look)


def _legend(study: StudyResults) -> list[Line2D]:
    published = [
        Line2D([], [], ls="", marker=MARKS[kind], mfc=style.PAPER, color=colour, mew=1.4, label=f"published, {kind}")
        for kind, colour in style.KIND_COLOURS.items()
    ]
    colours = style.device_colours(study)
    measured = [
        Line2D([], [], ls="", marker=MARKS[study.kind(name)], color=colours[name], label=f"measured, {name}")
        for name in study.devices
    ]
    marks = [
        Line2D([], [], ls="", marker="o", markersize=3, alpha=0.55, color=style.GREY, label="measured, not comparable"),
        Line2D([], [], ls="", marker="_", markersize=12, color=style.BLACK, label="published, impossible"),
    ]
    return [*published, *measured, *marks]
