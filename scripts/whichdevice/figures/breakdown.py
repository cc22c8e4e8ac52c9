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
    figure, axes, shown, _ = style.stacked_bars(
        cells.assign(**{part: 100 * cells[f"{part}_share"] for part in PARTS}),
        MOST_ROWS,
        {part: (part, SHADES[part], HATCHES[part]) for part in PARTS},
    )
    for place, seconds in enumerate(shown["step_time"]):
        text = f"{style.number(seconds * 1e3)} ms"
        axes.annotate(text, (100, place), (4, 0), textcoords="offset points", va="center", fontsize=7.5)
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("share of the step (%)")
    figure.legend(loc="outside upper right", ncols=len(PARTS))
    noisy = "; parts below the noise shown as 0" if shown["note"].notna().any() else ""
    n, more = style.rows_note(cells, shown, "n")
    style.footnote(figure, f"mean of n = {n} processes, no interval{noisy}{more}; {style.UNNAMED}")
    return figure
