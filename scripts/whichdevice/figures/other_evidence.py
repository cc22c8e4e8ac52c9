"""What was not measured here, beside what was: forecasts and published figures."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.figures import draws, style
from whichdevice.figures.style import grid_of
from whichdevice.results import StudyResults
from whichdevice.study_cells import workflow_command
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
