"""Forecast step time of devices that nobody here ran, with what was measured below."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.figures import series, style
from whichdevice.figures.results import StudyResults
from whichdevice.figures.tiles import grid_of
from whichdevice.tables.measured_values import enough_repeats, without_rehearsals
from whichdevice.tables.row_words import device_name
from whichdevice.workflow_command import workflow_command

TITLE = "Forecast step time on other devices"
CAPTION = (
    "Nobody here ran these: each step was compiled by the device's own compiler and its time forecast from the "
    "program. A bar is the 80 % interval, the dot the forecast. No input and no dispatch by the host: small steps take "
    "longer in practice. Forecasts enter no verdict, crossover, cost or speed-up. Below the line, apart: the fastest "
    "measured step of each device at the same batch sizes and sequence lengths, of any backend and loop; number "
    "formats as named."
)
CATEGORY = "Forecasts"
COLUMNS = 2
STEP = ["batch_size", "sequence_length"]  # what a forecast and a measured step have in common
NAMED = ["batch_size", "precision", "sequence_length"]  # always: the two are mostly of other number formats


def draw(study: StudyResults) -> Figure:
    """One panel per workload: a row per device and batch size, below them what was measured; logarithmic time."""
    found = study.forecasts[study.forecasts["step_time"].notna()]
    if found.empty:
        return style.empty(study, _why_empty(study.forecasts), workflow_command(study.study, "compiled"))
    found = found.assign(device=[device_name(row) for _, row in found.iterrows()])
    workloads = list(found["workload"].drop_duplicates())
    panels = {name: (_forecast(found, name), _measured(study, found, name)) for name in workloads}
    counts = [len(expected) + len(measured) + 0.6 * bool(len(measured)) for expected, measured in panels.values()]
    across = min(COLUMNS, len(workloads))
    heights = [max(counts[start : start + across]) + 3.2 for start in range(0, len(counts), across)]
    figure = style.new_figure(9.5, 0.2 * sum(heights) + 0.8)
    colours = style.device_colours(study)
    for axes, (name, rows) in zip(
        grid_of(figure, len(panels), across, height_ratios=heights), panels.items(), strict=True
    ):
        _ranges(axes, *rows, colours)
        axes.set_title(str(name), parse_math=False)
    handles = [
        Line2D([], [], color=style.GREEN, lw=5, alpha=0.55, marker="o", label="forecast, 80 % interval"),
        Line2D([], [], ls="", marker="o", color=style.GREY, label="measured"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2)
    style.footnote(figure, "forecast from the compiled program, nobody ran it; measured below, with 95 % t-interval")
    style.without_data(figure)
    return figure


def _forecast(found: pd.DataFrame, workload: str) -> pd.DataFrame:
    return found[found["workload"] == workload].sort_values("step_time", kind="stable")


def _measured(study: StudyResults, found: pd.DataFrame, workload: str) -> pd.DataFrame:
    """Each device's fastest step of the forecast batch sizes and sequence lengths, of those with enough good runs."""
    own = found[found["workload"] == workload]
    cells = without_rehearsals(study.measured[study.measured["workload"] == workload])
    cells = cells[cells["step_time"].notna()].merge(own[STEP].drop_duplicates(), on=STEP)
    place = cells.groupby([*STEP, "device"], dropna=False, sort=False).ngroup()
    cells = cells[enough_repeats(cells["n_timed"], place)]
    best = cells["step_time"].groupby(place, sort=False).idxmin()
    return cells.loc[best].sort_values("batch_size", kind="stable")


def _why_empty(forecasts: pd.DataFrame) -> str:
    reasons = forecasts["reason"].dropna()
    return f"No step has a forecast: {reasons.iloc[0]}" if len(reasons) else "No step was compiled for another device."


def _ranges(axes: Axes, rows: pd.DataFrame, measured: pd.DataFrame, colours: dict[str, str]) -> None:
    names = series.labels(rows.assign(unit=rows["module"].map({"matmul": "product"})), ["device", *NAMED], NAMED)
    names += series.labels(measured, ["device", *NAMED], NAMED)
    lows, middles, highs = (
        rows[name].to_numpy(float) * 1e3 for name in ("step_time_low", "step_time", "step_time_high")
    )
    times = measured["step_time"].to_numpy(float) * 1e3
    style.log_axis(axes, "x", [*lows, *highs, *times])
    for place, (low, middle, high) in enumerate(zip(lows, middles, highs, strict=True)):
        axes.plot([low, high], [place, place], color=style.GREEN, lw=5, alpha=0.55, solid_capstyle="butt")
        axes.plot(middle, place, "o", color=style.GREEN, ms=4)
        _label(axes, place, style.number(middle))
    below = len(rows) + 0.6 * bool(len(measured))
    for place, (_, cell) in enumerate(measured.iterrows()):
        ends = [1e3 * cell["step_time_low"], 1e3 * cell["step_time_high"]]
        axes.plot(ends, [below + place] * 2, color=colours[cell["device"]], lw=2)
        axes.plot(times[place], below + place, "o", color=colours[cell["device"]])
        _label(axes, below + place, f"{style.number(times[place])} measured")
    if len(measured):
        axes.axhline(below - 0.8, color=style.GREY, lw=0.8)
    axes.set_yticks([*range(len(rows)), *(below + place for place in range(len(measured)))], names, fontsize=7.5)
    axes.set_ylim(below + len(measured) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.set_xlabel("ms a step", fontsize=8)


def _label(axes: Axes, place: float, text: str) -> None:
    axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
