"""What was not measured here, beside what was: forecasts and published figures."""

from collections.abc import Set
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.figures import draws, style
from whichdevice.figures.style import grid_of
from whichdevice.results import StudyResults
from whichdevice.study_cells import workflow_command
from whichdevice.tables.audit import IMPOSSIBLE, KEY
from whichdevice.tables.board import FORECAST, MEASURED, WORK

ACROSS = 2


@draws(
    "Step time of every device, measured or forecast",
    category="Forecasts",
    caption=(
        "Each workload at one batch size, the fastest device on top. Filled: measured, 95 % interval. Open, pale bar: "
        "forecast from the compiled program, 80 % interval, without input and dispatch: small steps take longer."
    ),
)
def draw_forecasts(study: StudyResults) -> Figure:
    """One panel per workload with a forecast: a row per device on a logarithmic axis."""
    board = study.board[study.board["step_ms"].notna()]
    works = [rows for _, rows in board.groupby(WORK, dropna=False, sort=False) if (rows["evidence"] == FORECAST).any()]
    if not works:
        return style.empty(study, _why_empty(study.forecasts), workflow_command(study.study, "compiled"))
    across = min(ACROSS, len(works))
    heights = [max(map(len, works[start : start + across])) + 2.6 for start in range(0, len(works), across)]
    figure = style.new_figure(9.5, 0.22 * sum(heights) + 0.9)
    colours = style.device_colours(study)
    for axes, rows in zip(grid_of(figure, len(works), across, height_ratios=heights), works, strict=True):
        _forecast_panel(axes, rows.sort_values("step_ms", kind="stable"), colours)
    handles = [
        Line2D([], [], color=style.GREY, marker="o", label="measured"),
        Line2D([], [], color=style.PALE, lw=5, marker="o", mfc=style.PAPER, mec=style.GREY, label="forecast"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2)
    style.without_data(figure)
    return figure


def _why_empty(forecasts: pd.DataFrame) -> str:
    reasons = forecasts["reason"].dropna()
    return f"No step has a forecast: {reasons.iloc[0]}" if len(reasons) else "No step was compiled for another device."


def _forecast_panel(axes: Axes, rows: pd.DataFrame, colours: dict[str, str]) -> None:
    style.log_axis(axes, "x", [*rows["step_ms"], *rows["low_ms"].dropna(), *rows["high_ms"].dropna()])
    for place, (_, row) in enumerate(rows.iterrows()):
        measured = row["evidence"] == MEASURED
        colour = colours.get(row["device"], style.KIND_COLOURS[row["kind"]])
        ends = [row["low_ms"], row["high_ms"]]
        axes.plot(ends, [place, place], color=colour, lw=1.6 if measured else 5, alpha=None if measured else 0.4)
        axes.plot(row["step_ms"], place, "o", color=colour, mfc=colour if measured else style.PAPER, ms=5)
        if pd.notna(row["forecast_ms"]):  # of this very device
            ends = [row["forecast_low_ms"], row["forecast_high_ms"]]
            axes.plot(ends, [place, place], color=colour, lw=5, alpha=0.4, zorder=1)
            axes.plot(row["forecast_ms"], place, "o", color=colour, mfc=style.PAPER, ms=5, zorder=2)
        text = f"{style.number(row['step_ms'])}{' measured' if measured else ''}"
        axes.text(
            1.015, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform(),
            fontweight="bold" if measured else "normal",
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), rows["device"].tolist(), fontsize=8, parse_math=False)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(False, axis="y")
    first = rows.iloc[0]
    small = ", the host decides" if rows["host_decides"].fillna(False).any() else ""
    letter = "N" if first["unit"] == "product" else "batch"
    axes.set_title(f"{first['workload']}, {letter} {first['batch']}{small}", parse_math=False)
    axes.set_xlabel("ms a step", fontsize=8)


MARKS = {"cpu": "o", "gpu": "s", "tpu": "D"}
TIMES = {"s": 1.0, "ms": 1e-3, "us/sample": 1e-6}
PANELS = {"time (s)": "time", "TFLOP/s": "TFLOP/s", "share of images or characters": "fraction"}


@draws(
    "Published and measured",
    category="Published",
    caption=(
        "Hollow: published figures, by the kind of device they were got on (circle CPU, square GPU, diamond TPU). "
        "Filled: what this study measured of the same workload and batch size, with 95 % t-interval where there is "
        "one. Small and pale: measured, but not comparable (other length, epochs or data), so no ratio is given. "
        "Struck through: beyond the peak of the device that the source names. Sources, caveats and reasons are in the "
        "audit."
    ),
)
def draw_published_against_measured(study: StudyResults) -> Figure:
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
        _published_points(panel, group, style.device_colours(study), impossible)
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


def _published_points(
    axes: Axes, rows: pd.DataFrame, colours: dict[str, str], impossible: Set[tuple[Any, ...]]
) -> None:
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
