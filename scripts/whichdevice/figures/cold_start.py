"""What a run spends before it is at full speed."""

import pandas as pd
from matplotlib.figure import Figure

from whichdevice.figures import series, style
from whichdevice.figures.results import StudyResults

TITLE = "Cold start, part by part"
CAPTION = (
    "Seconds from the start of a process to steady state: importing the framework, taking the device (CUDA context, "
    "TPU system), opening the data, building the model, the first step with tracing and compilation, and the steps "
    "discarded as warm-up. Geometric means over processes; no average of steps or epochs holds any of it."
)
CATEGORY = "Speed"
MOST_ROWS = 24
PARTS = {
    "start": "start",
    "initialise": "take the device",
    "load": "load data",
    "build": "build model",
    "first_step": "first step",
    "warm_up": "warm-up",
}
SHADES = [style.BLUE, style.PURPLE, style.SKY, style.GREEN, style.ORANGE, "#cccccc"]
HATCHES = ["", "xxx", "///", "...", "\\\\\\", ""]


def draw(study: StudyResults) -> Figure:
    """A stacked bar per cell."""
    cells = series.whole_data(study.measured)
    cells = cells[cells["first_step"].notna()]
    if cells.empty:
        return style.empty(study, "No cold start was measured.")
    shown = cells if len(cells) <= MOST_ROWS else _one_each(cells).head(MOST_ROWS)
    axes_named = ["workload", "device", "backend", "precision", "batch_size", "loop", "sequence_length"]
    names = series.labels(shown, axes_named)
    names = [" ".join(name.split()) for name in names]
    figure = style.new_figure(9, 0.27 * len(shown) + 1.6)
    axes = figure.add_subplot()
    left = shown["first_step"].to_numpy(float) * 0
    for (name, text), colour, hatch in zip(PARTS.items(), SHADES, HATCHES, strict=True):
        width = shown[name].fillna(0).to_numpy(float)
        axes.barh(range(len(shown)), width, left=left, color=colour, hatch=hatch, height=0.72, label=text)
        left = left + width
    for place, total in enumerate(left):
        text = f"{style.number(total)} s"
        axes.annotate(text, (total, place), (4, 0), textcoords="offset points", va="center", fontsize=7.5)
    axes.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.1)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds")
    axes.grid(False, axis="y")
    figure.legend(loc="outside upper right", ncols=len(PARTS))
    counts = sorted({int(n) for n in shown["n_ok"]})
    more = f"; largest batch of each, {len(shown)} of {len(cells)} cells" if len(shown) < len(cells) else ""
    style.footnote(figure, f"geometric mean of n = {', '.join(map(str, counts))} processes{more}")
    return figure


def _one_each(cells: pd.DataFrame) -> pd.DataFrame:
    """The largest batch of each workload, device, backend and loop, in the order of the table."""
    ordered = cells.sort_values("batch_size", kind="stable")
    kept = ordered.drop_duplicates(["workload", "device", "backend", "loop"], keep="last")
    return cells.loc[cells.index.isin(kept.index)].sort_values("workload", kind="stable")
