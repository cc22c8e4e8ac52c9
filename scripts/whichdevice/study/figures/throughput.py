"""Throughput over batch size, and the batch from which another device wins."""

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.base.numbers import number
from whichdevice.study.figures import draws, style
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.base import device_name, length_words

WORDS_WIDTH = 42  # letters below a panel
WORK = ["workload", "sequence_length"]
BOUNDS = ["throughput", "throughput_low", "throughput_high"]


class Curve(NamedTuple):
    """The throughput of a device by batch size: columns of BOUNDS, ascending sizes as index."""

    device: str
    kind: str
    measured: bool
    values: pd.DataFrame


@draws(
    "Throughput over batch size",
    category="Pictures",
    caption=(
        "Units per second at each batch size (both logarithmic), measured or forecast, with intervals as bands; "
        "diamonds mark the batch from which another device is the fastest."
    ),
)
def draw_throughput(study: StudyResults) -> Figure | str:
    """A panel per training with several batch sizes, a line per device."""
    panels = {title: curves for title, curves in works(study) if any(len(one.values) > 1 for one in curves)}
    if not panels:
        return "No device was measured or forecast at two batch sizes of one training."
    shown = dict(list(panels.items())[: style.MAX_PANELS])
    figure = style.new_figure(style.WIDTH, 2.75 * -(-len(shown) // 2) + 0.9)
    panel_axes = style.grid_of(figure, len(shown), 2)
    for axes, (title, curves) in zip(panel_axes, shown.items(), strict=True):
        _panel(axes, curves)
        axes.set_ylabel("examples a second" if axes in panel_axes[::2] else "")
        axes.set_title(title, parse_math=False)
        axes.set_xlabel("\n".join(["batch size", *words(curves)]), fontsize=7.5, parse_math=False)
    drawn = [one for curves in shown.values() for one in curves]
    style.kinds_legend(figure, ((one.kind, one.measured) for one in drawn))
    rest = f"; {len(panels) - len(shown)} more in the tables" if len(panels) > len(shown) else ""
    figure.supxlabel(f"bands: 95 % where measured, 80 % where forecast{rest}")
    return figure


def works(study: StudyResults) -> Iterator[tuple[str, list[Curve]]]:
    """Yield each training with its curves; only sizes that fit a device are there."""
    fit = study.forecasts[(study.forecasts["status"] == "ok") & (study.forecasts["mode"] == "train")]
    slow, fast = (fit["throughput"] * fit["step_time"] / fit[f"step_time_{end}"] for end in ("high", "low"))
    names = [device_name(row) for _, row in fit.iterrows()]
    forecast = fit.assign(throughput_low=slow, throughput_high=fast, label=names, here=False)
    trained = style.whole_data(study.measured[study.measured["mode"] == "train"])
    rows = pd.concat([trained.assign(label=trained["device"], here=True), forecast], ignore_index=True)
    for _, work in rows.groupby(WORK, dropna=False, sort=False):
        curves = [
            Curve(str(label), str(part["kind"].iloc[0]), bool(here), _best(part))
            for (label, here), part in work.groupby(["label", "here"], sort=False)
        ]
        yield ", ".join([work["workload"].iloc[0], *length_words(work.iloc[0])]), curves


def _best(rows: pd.DataFrame) -> pd.DataFrame:
    """The highest throughput at each batch size."""
    best = rows.sort_values("throughput", kind="stable").drop_duplicates("batch_size", keep="last")
    return best.set_index(best["batch_size"].astype(int))[BOUNDS].astype(float).sort_index()


def leaders(curves: Sequence[Curve]) -> list[tuple[float, Curve]]:
    """Return the fastest device from the smallest batch on, and each batch from which another one is, on log axes."""
    sizes = sorted({size for one in curves for size in one.values.index})
    first = [max((one for one in curves if size in one.values.index), key=_at(size)) for size in sizes]
    changes = [(float(sizes[0]), first[0])]
    for (size, one), (larger, other) in pairwise(zip(sizes, first, strict=True)):
        if one is not other:
            changes.append((_crossing(size, larger, one, other), other))
    return changes


def _at(size: int) -> Callable[[Curve], float]:
    return lambda one: float(one.values["throughput"][size])


def _crossing(size: int, larger: int, one: Curve, other: Curve) -> float:
    """The size at which two lines cross, or the larger one where a line ends before."""
    if any(end not in curve.values.index for end in (size, larger) for curve in (one, other)):
        return float(larger)
    before, after = (float(np.log(_at(end)(other) / _at(end)(one))) for end in (size, larger))
    return float(size * (larger / size) ** (before / (before - after)))


def words(curves: Sequence[Curve]) -> list[str]:
    """Return which device is the fastest from which batch on."""
    (_, first), *changes = leaders(curves)
    later = [f"{one.device} from {_about(size)}" for size, one in changes]
    return textwrap.wrap(", ".join([f"fastest: {first.device}", *later]), WORDS_WIDTH)


def _about(size: float) -> str:
    """A batch size; one between those that are known has two digits, for more would promise too much."""
    if size == int(size):
        return number(size)
    return number(math.ceil(size) if size < 10 else float(f"{size:.2g}"))


def _panel(axes: Axes, curves: Sequence[Curve]) -> None:
    changes = leaders(curves)
    named = {id(one) for _, one in changes} | {id(one) for one in curves if one.measured}
    for one in curves:
        bold = id(one) in named
        sizes, values = one.values.index.to_numpy(float), one.values["throughput"]
        look = style.mark(one.kind, one.measured) | {"ms": 4.5 if bold else 2.5, "lw": 1.5 if bold else 0.6}
        axes.plot(sizes, values, **look, zorder=3 if bold else 2)
        if bold:
            low, high = one.values["throughput_low"], one.values["throughput_high"]
            axes.fill_between(sizes, low, high, color=look["color"], alpha=0.15, lw=0)
    for size, one in changes[1:]:
        speed = np.exp(np.interp(np.log(size), np.log(one.values.index), np.log(one.values["throughput"])))
        axes.plot(size, speed, "D", color=style.RED, ms=6, zorder=4)
    style.batch_axis(axes, {size for one in curves for size in one.values.index})
    style.log_axis(axes, "y", [value for one in curves for value in one.values["throughput"]])
