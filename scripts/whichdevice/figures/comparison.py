"""This study's cells against the same cells of other records."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.results import StudyResults
from whichdevice.study_cells import workflow_command
from whichdevice.tables.base import share_words
from whichdevice.tables.comparison import BOTH
from whichdevice.tables.statistics import EQUAL_HIGH, EQUAL_LOW, FASTER, SAME, SLOWER, UNDECIDED

TITLE = "Compared with other records"
CAPTION = (
    "Speed here over speed there of every cell that both measured: ratio of geometric means with 95 % t-interval by "
    "Welch's method, on a logarithmic axis. Right of 1 it is faster here. The band is .95 to 1.05; colour and word "
    "are the verdict, corrected over all cells."
)
CATEGORY = "Compare"
MOST_ROWS = 60
LOOKS: dict[str, dict[str, Any]] = {
    FASTER: {"color": style.GREEN, "marker": ">"},
    SLOWER: {"color": style.RED, "marker": "<"},
    SAME: {"color": style.BLUE, "marker": "o"},
    UNDECIDED: {"color": style.GREY, "marker": "o", "mfc": "white"},
}
TICKS = [0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 2, 3, 4]
AXES = ["device", "backend", "precision", "fraction", "loop", "sequence_length"]


def draw(study: StudyResults) -> Figure:
    """A row per cell; where there are many, those with a difference first."""
    found = study.compare[(study.compare["measured"] == BOTH) & study.compare["ratio"].notna()]
    if found.empty:
        return style.empty(study, "No cell was measured on both sides.", workflow_command(study.study, "compare"))
    shown = found
    if len(found) > MOST_ROWS:
        order = found["verdict"].map([FASTER, SLOWER, UNDECIDED, SAME].index)
        shown = found.loc[order.sort_values(kind="stable").index[:MOST_ROWS]].sort_index()
    figure = style.new_figure(9, 0.24 * len(shown) + 1.6)
    panel = figure.add_subplot()
    _rows(panel, shown, [axis for axis in AXES if found[axis].nunique(dropna=False) > 1])
    extent = shown[["ratio", "ratio_low", "ratio_high"]].to_numpy(float).ravel()
    _ratio_axis(panel, [*extent[np.isfinite(extent)], 0.9, 1.1])
    panel.set_xlabel("here / there (logarithmic)")
    cut = f"{len(shown)} of {len(found)} cells, differences first; " if len(shown) < len(found) else ""
    style.footnote(figure, f"{cut}bars: 95 % t-interval; no bar where one side has one process")
    style.without_data(figure)
    return figure


def _rows(axes: Axes, rows: pd.DataFrame, varied: Sequence[str]) -> None:
    axes.axvspan(EQUAL_LOW, EQUAL_HIGH, color=style.PALE, alpha=0.5, lw=0)
    axes.axvline(1, color=style.GREY, lw=1)
    for place, (_, row) in enumerate(rows.iterrows()):
        look = LOOKS[row["verdict"]]
        if pd.notna(row["ratio_low"]):
            axes.plot([row["ratio_low"], row["ratio_high"]], [place, place], color=look["color"], lw=2)
        axes.plot(row["ratio"], place, ls="", **look)
        text = f"×{style.number(row['ratio'])}  n = {row['n']}, {row['n_there']}  {row['verdict']}"
        axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
    names = [_name(row, varied) for _, row in rows.iterrows()]
    axes.set_yticks(range(len(names)), names, fontsize=7.5, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")


def _ratio_axis(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis of just these ratios: small differences are what is looked for."""
    low, high = min(values) / 1.03, max(values) * 1.03
    style.log_axis(axes, "x", values)
    if high / low < 8:
        ticks = [tick for tick in TICKS if low <= tick <= high]
        axes.set_xticks(ticks, [style.number(tick) for tick in ticks])
        axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)


def _name(row: pd.Series, varied: Sequence[str]) -> str:
    letter = "N" if row["quantity"] == "tflops" else "b"
    words = [row["workload"], f"{letter}{row['batch_size']}"]
    words += [str(row[axis]) for axis in varied if axis != "fraction" and pd.notna(row[axis])]
    words += share_words(row)
    return style.shortened(" ".join(words), 64)
