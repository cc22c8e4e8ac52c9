"""Where the time of a training step goes."""

from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.results import StudyResults
from whichdevice.tables.breakdown import PARTS

TITLE = "Where a step's time goes"
CAPTION = (
    "Shares of a training step, found by leaving parts out. Input: the loop as timed, less the same loop on one batch "
    "in place. Host: the same loop around a model of one weight; in eager PyTorch on a CPU, the time in which no "
    "operation ran. Other: starting a call of the loop, waiting for it and reading its result. Compute: the rest, the "
    "framework's own scheduling of operations included. On a GPU, host time may be hidden behind compute."
)
CATEGORY = "Limits"
MOST_ROWS = 24
SHADES = {"input": style.ORANGE, "host": style.PURPLE, "compute": style.BLUE, "other": "#bbbbbb"}
HATCHES = {"input": "///", "host": "...", "compute": "", "other": "xxx"}


def draw(study: StudyResults) -> Figure:
    """Draw a stacked bar per cell, labelled with its step time."""
    cells = style.whole_data(study.breakdown)
    if cells.empty:
        return style.empty(study, "No step was broken down (measure.breakdown).")
    shown = style.capped(cells, MOST_ROWS).sort_values("workload", kind="stable")
    names = style.names(shown)
    figure = style.new_figure(9, 0.27 * len(shown) + 1.6)
    axes = figure.add_subplot()
    left = shown["compute_share"].to_numpy(float) * 0
    for part in PARTS:
        width = 100 * shown[f"{part}_share"].to_numpy(float)
        axes.barh(range(len(shown)), width, left=left, color=SHADES[part], hatch=HATCHES[part], height=0.72, label=part)
        left = left + width
    for place, seconds in enumerate(shown["step_time"]):
        text = f"{style.number(seconds * 1e3)} ms"
        axes.annotate(text, (100, place), (4, 0), textcoords="offset points", va="center", fontsize=7.5)
    axes.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("share of the step (%)")
    axes.grid(False, axis="y")
    figure.legend(loc="outside upper right", ncols=len(PARTS))
    counts = sorted({int(n) for n in shown["n"]})
    noisy = "; parts below the noise shown as 0" if shown["note"].notna().any() else ""
    more = f"; largest batch of each, {len(shown)} of {len(cells)} cells" if len(shown) < len(cells) else ""
    more += style.left_out(cells, shown)
    style.footnote(
        figure, f"mean of n = {', '.join(map(str, counts))} processes, no interval{noisy}{more}; {style.UNNAMED}"
    )
    return figure
