"""What a run spends before it is at full speed."""

from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.results import StudyResults

TITLE = "Cold against warm, part by part"
CAPTION = (
    "Seconds from the start of a process on: importing the framework, taking the device (CUDA context, TPU system), "
    "opening the data, building the model, tracing and compiling (the first step less a steady one), the first step "
    "itself, the steps discarded as warm-up; then, pale, one hundred steps at steady speed, for scale, which may run "
    "off the panel (→). Geometric means over processes; no average of steps or epochs holds any of the cold parts."
)
CATEGORY = "Speed"
MOST_ROWS = 24
STEADY_STEPS = 100
RATIO = 1.7  # of the panel's width to the longest cold start
PARTS = {
    "start": "start",
    "initialise": "take the device",
    "load": "load data",
    "build": "build model",
    "compile": "trace and compile",
    "one_step": "first step",
    "warm_up": "warm-up",
    "steady": f"{STEADY_STEPS} steady steps",
}
SHADES = [style.BLUE, style.PURPLE, style.SKY, style.GREEN, style.ORANGE, style.RED, style.FAINT, style.PALE]
HATCHES = ["", "xxx", "///", "...", "\\\\\\", "", "++", ""]


def draw(study: StudyResults) -> Figure:
    """A stacked bar per cell."""
    cells = style.whole_data(study.measured)
    cells = cells[cells["first_step"].notna()]
    if cells.empty:
        return style.empty(study, "No cold start was measured.")
    steady = cells["step_time"].clip(upper=cells["first_step"])
    parts = {"compile": cells["first_step"] - steady, "one_step": steady, "steady": STEADY_STEPS * cells["step_time"]}
    cells = cells.assign(**parts)
    looks = dict(zip(PARTS, zip(PARTS.values(), SHADES, HATCHES, strict=True), strict=True))
    figure, axes, shown, left = style.stacked_bars(cells, MOST_ROWS, looks)
    cold = left - shown["steady"].fillna(0).to_numpy(float)
    right = RATIO * cold.max()
    for place, (total, start) in enumerate(zip(left, cold, strict=True)):
        text = f"{style.number(start)} s + {style.number(total - start)} s{' →' if total > right else ''}"
        axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
    axes.set_xlim(0, right)
    axes.set_xlabel("seconds")
    figure.legend(loc="outside upper right", ncols=4)
    n, more = style.rows_note(cells, shown, "n_timed")
    style.footnote(figure, f"cold + warm, geometric means of n = {n} processes, no interval{more}; {style.UNNAMED}")
    return figure
