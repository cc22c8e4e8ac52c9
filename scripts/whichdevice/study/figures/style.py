"""Draw all figures in one style: colour-blind safe, readable in grey, the same bytes from the same numbers.

Here are also the lines, labels, axes and small multiples that several figures share, and their files.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from whichdevice.base.files import replacing
from whichdevice.base.numbers import number
from whichdevice.decide import AskedWork, Row
from whichdevice.study.report.chart import overlap
from whichdevice.study.results import NOTHING, StudyResults
from whichdevice.study.tables.base import length_words

# Okabe and Ito, "Color Universal Design", 2008; yellow left out, for it is lost on white.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
RED, SKY, BLACK = "#D55E00", "#56B4E9", "#222222"
CYCLE = [BLUE, ORANGE, GREEN, PURPLE, RED, SKY, BLACK]
KIND_COLOURS = {"cpu": BLACK, "gpu": BLUE, "tpu": ORANGE}  # three shades of grey where there is no colour
KIND_MARKERS = {"cpu": "s", "gpu": "o", "tpu": "^"}
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">"]
GREY = "#5f5f5f"
ERROR = "#c22000"
PAPER, GRID, FAINT = "#ffffff", "#e6e6e6", "#b5b5b5"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # Verdana has the widths of DejaVu Sans
    "font.monospace": ["DejaVu Sans Mono", "Menlo", "Consolas"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": BLACK,
    "axes.labelcolor": BLACK,
    "axes.titlecolor": BLACK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": BLACK,
    "ytick.labelcolor": BLACK,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "hatch.linewidth": 0.6,
    "hatch.color": PAPER,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",  # text stays text: small files that can be searched
    "svg.hashsalt": "whichdevice",
}
# What each colour becomes where the page is dark; all keep their order of lightness against each other.
DARK = {
    PAPER: "#14181c",
    BLACK: "#e4e8ec",
    GREY: "#a3adb8",
    FAINT: "#5d6873",
    GRID: "#2b333b",
    BLUE: "#3a9bdc",
    SKY: "#79bdeb",
    GREEN: "#1fb98e",
    RED: "#f0793a",
    PURPLE: "#d99abc",
    ORANGE: "#f0b429",
    ERROR: "#ff9a80",
}


BELOW, NOTE_HEIGHT = "below", 0.125  # a legend's place; inches of a line of notes
NAME_LETTER, NAME_HEIGHT = 4.2, 8.0  # points of a letter of a point's name
NAME_ANCHORS = {"left": 0.0, "center": 0.5, "right": 1.0}
NAME_PLACES = (  # of a name from its point: points across and up, and the side that is there; the best first
    (7, 0, "left"), (-7, 0, "right"), (4, 6, "left"), (4, -6, "left"), (-4, 6, "right"), (-4, -6, "right"),
    (0, 9, "center"), (0, -9, "center"), (14, 12, "left"), (14, -12, "left"), (-14, 12, "right"), (-14, -12, "right"),
)  # fmt: skip
FAR = 10  # points from which on a line joins a name with its point


class Interval(NamedTuple):
    """A value and the ends of its interval."""

    value: float
    low: float = float("nan")
    high: float = float("nan")


@contextmanager
def applied() -> Iterator[None]:
    """Draw and save in this style, whatever the user's own Matplotlib settings are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def new_figure(width: float = 8.0, height: float = 4.5) -> Figure:
    """An empty figure of so many inches; its parts are laid out so that none overlap."""
    return Figure(
        figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, wspace=0.04, hspace=0.05)
    )


def blank(missing: str) -> Figure:
    """A panel that says why there is nothing to draw."""
    figure = Figure(figsize=(8, 1.2))
    figure.set_gid(NOTHING)
    text = "\n".join(textwrap.wrap(missing, 90))
    figure.text(0.5, 0.5, text, ha="center", va="center", fontsize=10, color=GREY, parse_math=False)
    return figure


def mark(kind: str, measured: bool) -> dict[str, Any]:
    """Return the look of a device's point: shape and colour of its kind, filled where it was measured."""
    colour = KIND_COLOURS[kind]
    return {"color": colour, "marker": KIND_MARKERS[kind], "mfc": colour if measured else PAPER, "mew": 1.3}


def point(axes: Axes, x: Interval, y: Interval, kind: str, measured: bool, **look: Any) -> None:
    """Draw a value with its intervals along both axes; an interval of no width is none."""
    for across, up in [((x.low, x.high), (y.value, y.value)), ((x.value, x.value), (y.low, y.high))]:
        if np.isfinite([*across, *up]).all() and (across[0] < across[1] or up[0] < up[1]):
            axes.plot(across, up, color=KIND_COLOURS[kind], lw=1, alpha=0.7, zorder=2)
    axes.plot(x.value, y.value, ls="", **{**mark(kind, measured), "ms": 5, "zorder": 3, **look})


def kinds_legend(figure: Figure, drawn: Iterable[tuple[str, bool]], *more_marks: Line2D) -> None:
    """Name the marks of these kinds, measured or forecast, below the picture."""
    drawn = set(drawn)
    handles = [
        Line2D([], [], ls="", label=f"{kind.upper()}, {'measured' if measured else 'forecast'}", **mark(kind, measured))
        for kind in KIND_COLOURS
        for measured in (True, False)
        if (kind, measured) in drawn
    ]
    legend_below(figure, [*handles, *more_marks])


def legend_below(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Name marks below the picture; `reserve` gives them room above the notes."""
    figure.legend(handles=handles, loc="lower left", ncols=3, fontsize=8, borderpad=0).set_gid(BELOW)


def reserve(figure: Figure) -> None:
    """Keep room for a legend below the picture, above the notes."""
    high = figure.get_size_inches()[1]
    for legend in figure.legends:
        if legend.get_gid() == BELOW and (engine := figure.get_layout_engine()) is not None:
            notes = (0.1 + NOTE_HEIGHT * (figure.get_supxlabel().count("\n") + 1)) / high
            legend.set_bbox_to_anchor((0.006, notes))
            legend.set_in_layout(False)
            share = legend.get_window_extent().height / figure.dpi / high + 0.06 / high
            engine.set(rect=(0.01, share, 0.98, 1 - share))  # type: ignore[call-arg]


def place_names(axes: Axes, names: Sequence[tuple[str, Interval, Interval]], needed: int = 0) -> None:
    """Write names beside their points, the first ones first, where they cover no other name, point or interval.

    The first `needed` ones may cover an interval where there is no room. The figure's layout is worked out before.
    """

    def in_points(values: Iterable[tuple[float, float]]) -> Any:
        return axes.transData.transform(list(values)) * 72 / axes.figure.dpi

    places = in_points((x.value, y.value) for _, x, y in names)
    lows, highs = (in_points((getattr(x, end), getattr(y, end)) for _, x, y in names) for end in ("low", "high"))
    inside = np.array(axes.get_window_extent().extents) * 72 / axes.figure.dpi
    boxes = [(x - 3, y - 3, x + 3, y + 3) for x, y in places]
    bars = [
        bar
        for (x, y), (left, low), (right, high) in zip(places, lows, highs, strict=True)
        for bar in ((left, y - 1, right, y + 1), (x - 1, low, x + 1, high))
    ]
    for place, ((text, x, y), (left, middle)) in enumerate(zip(names, places, strict=True)):
        wide = NAME_LETTER * len(text)
        for avoided, (across, up, anchor) in product([bars, []][: 1 + (place < needed)], NAME_PLACES):
            start = left + across - wide * NAME_ANCHORS[anchor]
            box = (start, middle + up - NAME_HEIGHT / 2, start + wide, middle + up + NAME_HEIGHT / 2)
            fits = inside[0] <= box[0] and box[2] <= inside[2] and inside[1] <= box[1] and box[3] <= inside[3]
            if fits and not any(overlap(box, other) for other in (*boxes, *avoided)):
                boxes.append(box)
                look: dict[str, Any] = {"ha": anchor, "va": "center", "fontsize": 7, "in_layout": False}
                if abs(up) > FAR:
                    look["arrowprops"] = {"arrowstyle": "-", "lw": 0.6, "color": FAINT, "shrinkA": 0, "shrinkB": 3}
                look |= {"textcoords": "offset points", "parse_math": False}
                axes.annotate(text, (x.value, y.value), (across, up), **look)
                break


def finish(figure: Figure, title: str, study: StudyResults) -> None:
    """Title above; below the figure's own supxlabel, the data source and absent devices."""
    absent = f"not measured: {', '.join(study.absent)}" if study.absent and study.devices else ""
    entitle(figure, title, data_note(study), absent)


def entitle(figure: Figure, title: str, *notes: str) -> None:
    """Title above; below the figure's own supxlabel, notes."""
    width = figure.get_size_inches()[0]
    figure.suptitle(title, x=0.012, ha="left", fontsize=12, fontweight="bold", parse_math=False)
    text = " · ".join(part for part in (figure.get_supxlabel().strip(), *notes) if part)
    lines = "\n".join(textwrap.wrap(text, int(width * 17.5)))
    figure.supxlabel(lines, x=0.012, ha="left", fontsize=7.5, color=GREY, parse_math=False)
    reserve(figure)


def data_note(study: StudyResults) -> str:
    """Return where the data came from, stand-ins named as such."""
    names = {"standin": "stand-in (generated)", "files": "original files", "tfds": "TFDS"}
    words = [names.get(source, source) for source in study.sources]
    if len(words) > 1:
        words = [f"{name} ({', '.join(sets)})" for name, sets in zip(words, study.sources.values(), strict=True)]
    return f"data: {', '.join(words)}" if words else ""


class PlainTicks(LogLocator):
    """1, 2 and 5 of each power of ten, or its 1 alone; in a view that has too few of them, a few round numbers."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the places of the labels."""
        if 0 < vmax < 5 * vmin:
            return MaxNLocator(nbins=4, steps=[1, 2, 5, 10]).tick_values(vmin, vmax)
        return super().tick_values(vmin, vmax)


def log_axis(axes: Axes, which: str, values: Iterable[float]) -> None:
    """A logarithmic axis with plain numbers; few labels where the range is wide, more where it is narrow."""
    positive = [value for value in values if value == value and value > 0]
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    spread = max(positive) / min(positive) if positive else 1
    axis.set_major_locator(PlainTicks(subs=(1, 2, 5) if spread < 120 else (1,), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_formatter(NullFormatter())
    if positive and spread < 1.3:  # a single point, or nearly: give it room
        (axes.set_xlim if which == "x" else axes.set_ylim)(min(positive) / 2.2, max(positive) * 2.2)


def shortened(text: str, length: int = 40) -> str:
    """Text cut to a length."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def whole_data(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with the largest share of the training data of each workload, sequence length and device."""
    one_curve = ["workload", "sequence_length", "device"]
    largest = cells.groupby(one_curve, dropna=False)["fraction"].transform("max")
    return cells[cells["fraction"] == largest]


def beside_words(
    axes: Axes, ends: Sequence[float], room: float, ticks: Sequence[float], written: Callable[[float], str] = number
) -> None:
    """A logarithmic axis of these values, in the left part of the panel; words stand at its right, in `room`."""
    low, high = math.log10(min(ends)), math.log10(max(ends))
    wide = (high - low + 0.3) / (1 - room)
    axes.set_xscale("log")
    axes.set_xlim(10 ** (low - 0.2), 10 ** (low - 0.2 + wide))
    axes.set_xticks([tick for tick in ticks if low - 0.2 <= math.log10(tick) <= high], minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value)))


def grid_of(figure: Figure, count: int, columns: int, **options: Any) -> list[Axes]:
    """So many panels, in rows of at most `columns`; places left over in the last row stay blank."""
    across = min(columns, count)
    panels = figure.subplots(-(-count // across), across, squeeze=False, **options).ravel()
    for panel in panels[count:]:
        panel.set_axis_off()
    return list(panels[:count])


WIDTH = 6.4  # inches: 8 points are legible on a phone, which shows the picture 640 pixels wide
MAX_PANELS = 6  # small multiples of one figure


def work_title(work: AskedWork) -> str:
    """Return a workload with its batch size, or the size of a product, and the length of its sequences."""
    size = f"N = {work.batch}" if work.unit == "product" else f"batch {work.batch}"
    sizes = [*([] if work.unit == "gigabyte" else [size]), *length_words(vars(work))]
    return f"{work.workload}\n{', '.join(sizes)}".strip()


def one_a_device(work: AskedWork) -> list[Row]:
    """Return a row with a time for each device, however it is offered."""
    return list({row.card: row for row in reversed(work.rows) if row.step_time}.values())[::-1]


def in_order(rows: Iterable[Row]) -> list[str]:
    """Return the names of devices: CPUs, GPUs, TPUs, each in the order of the rows."""
    kinds = {row.card: row.kind for row in rows}
    return sorted(kinds, key=lambda name: list(KIND_COLOURS).index(kinds[name]))


def formats(rows: Iterable[Row]) -> str:
    """Return the number formats of what was measured and of what is forecast."""
    used: dict[bool, set[str]] = {}
    for row in rows:
        used.setdefault(row.is_here, set()).add(row.precision.replace("_", " "))
    words = [(True, "measured"), (False, "forecast")]
    return "; ".join(f"{word} in {', '.join(sorted(used[here]))}" for here, word in words if here in used)


def device_panels(titles: Sequence[str], devices: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for each title, in which each device has a line of the same place."""
    down = -(-len(titles) // 2)
    figure = new_figure(WIDTH, (0.165 * len(devices) + 0.65) * down + 1.1)
    panels = grid_of(figure, len(titles), 2, sharey=True)
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title, fontsize=8.5, parse_math=False)
        panel.grid(visible=False, axis="y")
        panel.tick_params(labelsize=7.5)
    panels[0].set_ylim(len(devices) - 0.4, -0.6)
    panels[0].set_yticks(range(len(devices)), devices, parse_math=False)
    return figure, panels


def lay_out(figure: Figure) -> None:
    """Work out the places of all parts, with room for title and notes."""
    figure.suptitle(" ", fontsize=12)
    figure.supxlabel(f"{figure.get_supxlabel()}\n", fontsize=7.5)
    reserve(figure)
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)


def save(figure: Figure, *paths: Path) -> None:
    """Write a file for each path, SVG or PNG; no date goes into them."""
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
    for path in map(Path, paths):
        options: dict[str, Any] = {"metadata": {"Date": None}} if path.suffix == ".svg" else {"dpi": 160}
        with replacing(path) as aside:
            figure.savefig(aside, format=path.suffix[1:], **options)
            if path.suffix == ".svg":
                aside.write_text(following_scheme(aside.read_text(encoding="utf-8")), encoding="utf-8")


def following_scheme(svg: str) -> str:
    """An SVG that a browser shows in the page's colour scheme; every other program shows it light, as it was."""
    rules = (
        f'[style*="{what}: {light}"] {{ {what}: {dark} !important }}'
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    )
    sheet = f'<style type="text/css">@media (prefers-color-scheme: dark) {{ {" ".join(rules).lower()} }}</style>'
    return svg.replace("<defs>", f"<defs>{sheet}", 1)
