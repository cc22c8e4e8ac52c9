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
    shown = style.capped(cells, MOST_ROWS).sort_values("workload", kind="stable")
    names = style.names(shown)
    figure = style.new_figure(9, 0.27 * len(shown) + 1.6)
    axes = figure.add_subplot()
    left = shown["first_step"].to_numpy(float) * 0
    for (name, text), colour, hatch in zip(PARTS.items(), SHADES, HATCHES, strict=True):
        width = shown[name].fillna(0).to_numpy(float)
        axes.barh(range(len(shown)), width, left=left, color=colour, hatch=hatch, height=0.72, label=text)
        left = left + width
    cold = left - shown["steady"].fillna(0).to_numpy(float)
    right = RATIO * cold.max()
    for place, (total, start) in enumerate(zip(left, cold, strict=True)):
        text = f"{style.number(start)} s + {style.number(total - start)} s{' →' if total > right else ''}"
        axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
    axes.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, right)
    axes.set_xlabel("seconds")
    axes.grid(False, axis="y")
    figure.legend(loc="outside upper right", ncols=4)
    counts = sorted({int(n) for n in shown["n_timed"]})
    more = f"; largest batch of each, {len(shown)} of {len(cells)} cells" if len(shown) < len(cells) else ""
    more += style.left_out(cells, shown)
    n = ", ".join(map(str, counts))
    style.footnote(figure, f"cold + warm, geometric means of n = {n} processes, no interval{more}; {style.UNNAMED}")
    return figure
