"""Modelled device time of a step on TPU generations, apart from everything measured."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures import series, style
from whichdevice.figures.results import StudyResults

TITLE = "TPU generations: modelled device time of a step"
CAPTION = (
    "Nobody ran these: the real TPU compiler compiled each training step on a machine without a TPU, and a range of "
    "device time was modelled from its program (docs/tpu-model.md). A bar runs from the low to the high end; an arrow "
    "means at least the low end. No input, no host, no dispatch: small models take far longer in practice. Modelled "
    "times enter no verdict, crossover, cost or speed-up."
)
CATEGORY = "Compiled"
COLUMNS = 2


def draw(study: StudyResults) -> Figure:
    """One panel per workload, one row per slice and batch size; logarithmic time, each panel its own."""
    found = study.compiled[study.compiled["time_low"].notna()]
    if found.empty:
        return style.empty(study, _why_empty(study.compiled))
    workloads = list(found["workload"].drop_duplicates())
    rows = -(-len(workloads) // COLUMNS)
    most = int(found.groupby("workload").size().max())
    figure = style.new_figure(9.5, rows * (0.24 * most + 0.95) + 0.9)
    panels = figure.subplots(rows, min(COLUMNS, len(workloads)), squeeze=False).ravel()
    for panel, workload in zip(panels, workloads, strict=False):
        own = found[found["workload"] == workload]
        panel.set_title(str(workload), parse_math=False)
        _ranges(panel, own.sort_values("batch_size", kind="stable"))
    for panel in panels[len(workloads) :]:
        panel.set_axis_off()
    style.footnote(figure, "modelled from the compiled program, not measured; ms a step, logarithmic")
    style.without_data(figure)
    return figure


def _why_empty(compiled: pd.DataFrame) -> str:
    reasons = compiled["reason"].dropna()
    if len(reasons):
        return f"No step was compiled for a TPU: {reasons.iloc[0]}"
    return "No step was compiled for a TPU. Make them: snakemake --cores 1 compiled"


def _ranges(axes: Axes, rows: pd.DataFrame) -> None:
    names = series.labels(rows.assign(unit=rows["module"].map({"matmul": "product"})), LABELLED)
    lows, highs = rows["time_low"].to_numpy(float) * 1e3, rows["time_high"].to_numpy(float) * 1e3
    style.log_axis(axes, "x", [*lows, *highs[highs == highs], *(lows * 1.3)])
    for place, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if high == high:
            axes.plot([low, high], [place, place], color=style.GREEN, lw=5, alpha=0.55, solid_capstyle="butt")
            axes.plot([low, high], [place, place], "|", color=style.GREEN, ms=9)
            told = f"{style.number(low)} – {style.number(high)}"
        else:
            axes.plot(low, place, ">", color=style.GREEN, mfc="white")
            told = f"≥ {style.number(low)}"
        axes.text(1.01, place, told, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
    axes.set_yticks(range(len(names)), names, fontsize=7.5, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.set_xlabel("ms a step, modelled")


LABELLED = ["topology", "batch_size", "precision", "sequence_length"]
