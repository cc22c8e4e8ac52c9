"""Modelled device time of a step on TPU generations, apart from everything measured."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.figures import series, style
from whichdevice.figures.results import StudyResults
from whichdevice.figures.tiles import grid_of
from whichdevice.tables.measured_values import enough_repeats, without_rehearsals
from whichdevice.workflow_command import workflow_command

TITLE = "TPU generations: modelled device time of a step"
CAPTION = (
    "Nobody ran these: the real TPU compiler compiled each training step on a machine without a TPU, and a range of "
    "device time was modelled from its program (docs/tpu-model.md). A bar runs from the low to the high end; an arrow "
    "means at least the low end. No input, no host, no dispatch: small models take far longer in practice. Modelled "
    "times enter no verdict, crossover, cost or speed-up. Below the line, apart: the fastest measured step of each "
    "device at the same batch sizes and sequence lengths, of any backend and loop; number formats as named."
)
CATEGORY = "Compiled"
COLUMNS = 2
STEP = ["batch_size", "sequence_length"]  # what a modelled and a measured step have in common
NAMED = ["batch_size", "precision", "sequence_length"]  # always: the two are mostly of other number formats


def draw(study: StudyResults) -> Figure:
    """One panel per workload: a row per slice and batch size, below them what was measured; logarithmic time."""
    found = study.compiled[study.compiled["time_low"].notna()]
    if found.empty:
        return style.empty(study, _why_empty(study.compiled), workflow_command(study.study, "compiled"))
    workloads = list(found["workload"].drop_duplicates())
    panels = {name: (_modelled(found, name), _measured(study, found, name)) for name in workloads}
    counts = [len(modelled) + len(measured) + 0.6 * bool(len(measured)) for modelled, measured in panels.values()]
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
        Line2D([], [], color=style.GREEN, lw=5, alpha=0.55, label="modelled range"),
        Line2D([], [], ls="", marker=">", color=style.GREEN, mfc=style.PAPER, label="modelled, at least"),
        Line2D([], [], ls="", marker="o", color=style.GREY, label="measured"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=3)
    style.footnote(
        figure, "modelled from the compiled program, nobody ran it; measured below the line, with 95 % t-interval"
    )
    style.without_data(figure)
    return figure


def _modelled(found: pd.DataFrame, workload: str) -> pd.DataFrame:
    return found[found["workload"] == workload].sort_values("batch_size", kind="stable")


def _measured(study: StudyResults, found: pd.DataFrame, workload: str) -> pd.DataFrame:
    """Each device's fastest step of the compiled batch sizes and sequence lengths, of those with enough good runs."""
    own = found[found["workload"] == workload]
    cells = without_rehearsals(study.measured[study.measured["workload"] == workload])
    cells = cells[cells["step_time"].notna()].merge(own[STEP].drop_duplicates(), on=STEP)
    place = cells.groupby([*STEP, "device"], dropna=False, sort=False).ngroup()
    cells = cells[enough_repeats(cells["n_timed"], place)]
    best = cells["step_time"].groupby(place, sort=False).idxmin()
    return cells.loc[best].sort_values("batch_size", kind="stable")


def _why_empty(compiled: pd.DataFrame) -> str:
    reasons = compiled["reason"].dropna()
    if len(reasons):
        return f"No step was compiled for a TPU: {reasons.iloc[0]}"
    return "No step was compiled for a TPU."


def _ranges(axes: Axes, rows: pd.DataFrame, measured: pd.DataFrame, colours: dict[str, str]) -> None:
    names = series.labels(rows.assign(unit=rows["module"].map({"matmul": "product"})), ["topology", *NAMED], NAMED)
    names += series.labels(measured, ["device", *NAMED], NAMED)
    lows, highs = rows["time_low"].to_numpy(float) * 1e3, rows["time_high"].to_numpy(float) * 1e3
    times = measured["step_time"].to_numpy(float) * 1e3
    style.log_axis(axes, "x", [*lows, *highs[highs == highs], *(lows * 1.3), *times])
    for place, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if high == high:
            axes.plot([low, high], [place, place], color=style.GREEN, lw=5, alpha=0.55, solid_capstyle="butt")
            axes.plot([low, high], [place, place], "|", color=style.GREEN, ms=9)
            told = f"{style.number(low)} – {style.number(high)}"
        else:
            axes.plot(low, place, ">", color=style.GREEN, mfc=style.PAPER)
            told = f"≥ {style.number(low)}"
        _tell(axes, place, told)
    below = len(rows) + 0.6 * bool(len(measured))
    for place, (_, cell) in enumerate(measured.iterrows()):
        ends = [1e3 * cell["step_time_low"], 1e3 * cell["step_time_high"]]
        axes.plot(ends, [below + place] * 2, color=colours[cell["device"]], lw=2)
        axes.plot(times[place], below + place, "o", color=colours[cell["device"]])
        _tell(axes, below + place, f"{style.number(times[place])} measured")
    if len(measured):
        axes.axhline(below - 0.8, color=style.GREY, lw=0.8)
    axes.set_yticks([*range(len(rows)), *(below + place for place in range(len(measured)))], names, fontsize=7.5)
    axes.set_ylim(below + len(measured) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.set_xlabel("ms a step", fontsize=8)


def _tell(axes: Axes, place: float, text: str) -> None:
    axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
