"""Published numbers beside what this study has of as much of the same work."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from whichdevice.base.numbers import time_words
from whichdevice.study.figures import draws, style
from whichdevice.study.results import StudyResults

CLAIM = ["source", "workload", "metric", "published_batch_size", "published_device", "value"]
PUBLISHED: dict[str, Any] = {
    "ls": "", "marker": "X", "ms": 6.5, "mfc": style.RED, "mec": style.PAPER, "mew": 0.5, "zorder": 5,
}  # fmt: skip
DISPUTED = PUBLISHED | {"mfc": style.PAPER, "mec": style.RED, "mew": 1.0}
CLAIM_TICKS = (1e-4, 1e-2, 1.0, 60.0, 3600.0, 86400.0)  # seconds
UNITS = {"s": "time", "TFLOP/s": "TFLOP/s"}
METRIC_WORDS = {"epoch_time": "epoch", "first_epoch_time": "first epoch", "step_time": "step", "wall_time": "training"}
METRIC_WORDS |= {"total_time": "training", "throughput": "product", "throughput_cold": "cold product"}


@draws(
    "What was published, and what this study says",
    category="Pictures",
    caption=(
        "Each published time or speed (cross, logarithmic) beside the same amount of work on this study's devices of "
        "that kind and on this machine, from the time of an example at the nearest batch size, with intervals."
    ),
)
def draw_claims(study: StudyResults) -> Figure | str:
    """A panel per unit, a line per published number."""
    claims = study.claims[study.claims["unit"].isin(list(UNITS)) & study.claims["value"].notna()]
    if claims["ours"].isna().all():
        return "This study has no work of which somebody published a time."
    parts = {unit: list(claims[claims["unit"] == unit].groupby(CLAIM, sort=False, dropna=False)) for unit in UNITS}
    parts = {unit: rows for unit, rows in parts.items() if rows}
    figure = style.new_figure(style.WIDTH, 0.19 * sum(map(len, parts.values())) + 0.5 * len(parts) + 1.4)
    ratios = [len(rows) + 2 for rows in parts.values()]
    panels = figure.subplots(len(parts), 1, squeeze=False, height_ratios=ratios).ravel()
    for axes, (unit, rows) in zip(panels, parts.items(), strict=True):
        _panel(axes, [part for _, part in rows])
        axes.set_xlabel(UNITS[unit], fontsize=8)
    marks = [Line2D([], [], label=words, **look) for words, look in (("published", PUBLISHED), ("disputed", DISPUTED))]
    shown = claims[_comparable(claims)]
    seen = zip(shown["kind"], shown["evidence"] == "measured", strict=True)
    style.kinds_legend(figure, seen, *marks)
    figure.supxlabel("sources and caveats: table published; times without start, compilation and validation")
    return figure


def _comparable(claims: pd.DataFrame) -> pd.Series:
    """Return whether a device is of the published kind, or measured here."""
    same = (claims["kind"] == claims["device_class"]) | (claims["evidence"] == "measured")
    return claims["ours"].notna() & same.fillna(False)


def _panel(axes: Axes, rows: list[pd.DataFrame]) -> None:
    ends: list[float] = []
    for place, claim in enumerate(rows):
        first = claim.iloc[0]
        axes.plot(first["value"], place, **(DISPUTED if first["standing"] == "disputed" else PUBLISHED))
        ends.append(first["value"])
        for _, row in claim[_comparable(claim)].iterrows():
            ours = style.Interval(row["ours"], row["ours_low"], row["ours_high"])
            style.point(axes, ours, style.Interval(place), row["kind"], row["evidence"] == "measured", ms=4)
            ends += [end for end in ours if end == end]
    style.log_axis(axes, "x", ends)
    if first["unit"] == "s":
        axes.set_xticks([tick for tick in CLAIM_TICKS if min(ends) <= tick <= max(ends)], minor=False)
        axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_words(value)))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [_words(claim.iloc[0]) for claim in rows], fontsize=7, parse_math=False)
    axes.tick_params(axis="x", labelsize=8)


def _words(claim: pd.Series) -> str:
    size = "" if pd.isna(claim["published_batch_size"]) else f" b{claim['published_batch_size']}"
    metric = METRIC_WORDS.get(str(claim["metric"]), str(claim["metric"]).replace("_", " "))
    return f"{claim['workload']}{size}, {metric}: {style.shortened(str(claim['published_device']), 18)}"
