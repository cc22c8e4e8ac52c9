"""How much faster one choice is than another."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words, share_words

TITLE = "Speed-ups on one device, all else equal"
CAPTION = (
    "Ratio of throughputs (of TFLOP/s for matrix products) of two cells that differ in one thing only, from "
    "repeats paired within the study: geometric mean with 95 % t-interval on a logarithmic axis. Right of 1 the "
    "compared choice is faster. The words are the verdict of the one rule that judges every comparison here, corrected "
    "over all rows of a panel and those left to the tables."
)
CATEGORY = "Speed"
MOST_ROWS = 24
WORDS = {
    "backend": "Backends",
    "precision": "Number formats",
    "loop": "Training loops",
    "batch_size": "Batch sizes and matrix sizes N",
}


def draw(study: StudyResults) -> Figure:
    """A panel per kind of comparison, a row per pair of cells."""
    found = study.speedups[study.speedups["comparison"] != "device"]  # figure speedup_over_cpu shows devices
    if found.empty:
        return style.empty(study, "No two measured cells of one device differ in one thing only, so there is no ratio.")
    groups = [
        (str(name), group, style.capped(group, MOST_ROWS, ["fraction", "batch_size"]))
        for name, group in found.groupby("comparison", sort=False)
    ]
    heights = [len(shown) + 2.2 for _, _, shown in groups]
    figure = style.new_figure(9, 0.26 * sum(heights) + 1.2)
    panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    colours, several = style.device_colours(study), found["device"].nunique() > 1
    for panel, (name, group, shown) in zip(panels, groups, strict=True):
        _rows(panel, shown, colours, [_name(row, name, several) for _, row in shown.iterrows()])
        more = f" — {len(shown)} of {len(group)}, largest sizes" if len(shown) < len(group) else ""
        more += style.left_out(group, shown)
        panel.set_title(WORDS.get(name, name) + more, parse_math=False)
        extent = shown[["ratio", "ratio_low", "ratio_high"]].to_numpy(float).ravel()
        style.ratio_axis(panel, extent)
    panels[-1].set_xlabel("ratio (logarithmic, each panel its own axis)")
    style.footnote(figure, f"bars: 95 % t-interval over n pairs; no bar from one pair; {style.UNNAMED}")
    return figure


def _rows(axes: Axes, rows: pd.DataFrame, colours: dict[str, str], names: list[str]) -> None:
    axes.axvline(1, color=style.GREY, lw=1)
    for place, (_, row) in enumerate(rows.iterrows()):
        low, high = row["ratio_low"], row["ratio_high"]
        colour = colours.get(row["device"], style.BLACK)
        if low == low:
            axes.plot([low, high], [place, place], color=colour, lw=2.2, solid_capstyle="butt")
        axes.plot(row["ratio"], place, "o", color=colour, mfc=colour if low == low else "white")
        interval = f" [{style.number(low)} – {style.number(high)}]" if low == low else ""
        text = f"×{style.number(row['ratio'])}{interval}, n = {row['n']}, {row['verdict']}"
        axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
    axes.set_yticks(range(len(names)), names, fontsize=7.5, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")


def _name(row: pd.Series, comparison: str, several: bool) -> str:
    """The workload, what else tells this pair from others, and the two values compared."""
    letter = "N" if row["quantity"] == "tflops" else "b"
    words = [row["workload"], *([row["device"]] if several else [])]
    words += [f"{letter}{row['batch_size']}"] if comparison != "batch_size" else []
    for axis, usual in style.USUAL.items():
        if axis not in (comparison, "fraction") and row[axis] != usual:
            words.append(str(row[axis]))
    words += share_words(row)
    words += length_words(row)
    return f"{' '.join(words)}: {row['compared']} / {row['baseline']}"
