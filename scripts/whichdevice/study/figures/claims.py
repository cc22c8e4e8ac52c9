"""Published times beside what this study has of as much of the same work."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from whichdevice.base.numbers import time_words
from whichdevice.study.figures import draws, style
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.published import DISPUTED, FIGURE

PUBLISHED: dict[str, Any] = {
    "ls": "", "marker": "X", "ms": 6.5, "mfc": style.RED, "mec": style.PAPER, "mew": 0.5, "zorder": 5,
}  # fmt: skip
TICKS = (1e-4, 1e-2, 1.0, 60.0, 3600.0, 86400.0)  # seconds


@draws(
    "What was published, and what this study says",
    category="Pictures",
    caption=(
        "Each published time (cross, logarithmic) beside the same amount of work on this study's devices of that kind "
        "and on this machine, from the time of an example at the nearest batch size, with intervals."
    ),
)
def draw_claims(study: StudyResults) -> Figure | str:
    """A line per published time."""
    times = study.published[(study.published["unit"] == "s") & study.published["value"].notna()]
    times = times[times["standing"] != DISPUTED]
    if times["ours"].isna().all():
        return "This study has no work of which somebody published a time."
    rows = [part for _, part in times.groupby(FIGURE, sort=False, dropna=False)]
    figure = style.new_figure(style.WIDTH, 0.19 * len(rows) + 1.6)
    _draw(figure.subplots(), rows)
    shown = times[_comparable(times)]
    seen = zip(shown["kind"], shown["evidence"] == "measured", strict=True)
    style.kinds_legend(figure, seen, Line2D([], [], label="published", **PUBLISHED))
    figure.supxlabel("sources and caveats: table published; times without start, compilation and validation")
    return figure


def _comparable(rows: pd.DataFrame) -> pd.Series:
    """Return whether a device is of the published kind, or measured here."""
    same = (rows["kind"] == rows["device_class"]) | (rows["evidence"] == "measured")
    return rows["ours"].notna() & same.fillna(False)


def _draw(axes: Axes, figures: list[pd.DataFrame]) -> None:
    ends: list[float] = []
    for place, rows in enumerate(figures):
        axes.plot(rows["value"].iloc[0], place, **PUBLISHED)
        ends.append(rows["value"].iloc[0])
        for _, row in rows[_comparable(rows)].iterrows():
            ours = style.Interval(row["ours"], row["ours_low"], row["ours_high"])
            style.point(axes, ours, style.Interval(place), row["kind"], row["evidence"] == "measured", ms=4)
            ends += [end for end in ours if end == end]
    style.log_axis(axes, "x", ends)
    axes.set_xticks([tick for tick in TICKS if min(ends) <= tick <= max(ends)], minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_words(value)))
    axes.set_ylim(len(figures) - 0.4, -0.6)
    axes.set_yticks(range(len(figures)), [_words(rows.iloc[0]) for rows in figures], fontsize=7, parse_math=False)
    axes.tick_params(axis="x", labelsize=8)


def _words(row: pd.Series) -> str:
    size = "" if pd.isna(row["published_batch_size"]) else f" b{row['published_batch_size']}"
    of = str(row["metric"]).removesuffix("_time").replace("_", " ").replace("wall", "training")
    return f"{row['workload']}{size}, {of.replace('total', 'training')}: {style.shortened(row['published_device'], 18)}"
