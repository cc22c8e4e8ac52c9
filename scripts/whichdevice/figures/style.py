"""Draw all figures in one style: colour-blind safe, readable in grey, the same bytes from the same numbers.

Here are also the lines, labels, axes and small multiples that several figures share, and their files.
"""

import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from whichdevice.files import replacing
from whichdevice.numbers import number
from whichdevice.results import FEW_POINTS, StudyResults
from whichdevice.study_cells import workflow_command

# Okabe and Ito, "Color Universal Design", 2008; yellow left out, for it is lost on white.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
RED, SKY, BLACK = "#D55E00", "#56B4E9", "#222222"
CYCLE = [BLUE, ORANGE, GREEN, PURPLE, RED, SKY, BLACK]
KIND_COLOURS = {"cpu": BLUE, "gpu": ORANGE, "tpu": GREEN}
SPARE_COLOURS = [PURPLE, RED, SKY, BLACK]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">"]
GREY, PALE = "#5f5f5f", "#d9d9d9"
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
    PALE: "#3d4650",
    GRID: "#2b333b",
    BLUE: "#3a9bdc",
    SKY: "#79bdeb",
    GREEN: "#1fb98e",
    RED: "#f0793a",
    PURPLE: "#d99abc",
    ORANGE: "#f0b429",
    ERROR: "#ff9a80",
}


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


def device_colours(study: StudyResults) -> dict[str, str]:
    """Return a colour per device: its kind's colour for the first of a kind, spare ones for others."""
    names = [*study.study.devices, *(name for name in study.devices if name not in study.study.devices)]
    colours: dict[str, str] = {}
    for name in names:
        usual = KIND_COLOURS[study.kind(name)]
        spare = SPARE_COLOURS[sum(colour in SPARE_COLOURS for colour in colours.values()) % len(SPARE_COLOURS)]
        colours[name] = spare if usual in colours.values() else usual
    return colours


def empty(study: StudyResults, missing: str, command: str | None = None) -> Figure:
    """A calm panel that says what is missing and which command measures it."""
    figure = new_figure(8, 2.6)
    axes = figure.add_subplot()
    axes.set_axis_off()
    text = "\n".join(textwrap.wrap(missing, 90))
    axes.text(0.5, 0.6, text, ha="center", va="center", fontsize=10, color=GREY, parse_math=False)
    axes.text(
        0.5,
        0.25,
        f"run: {command or workflow_command(study.study)}",
        ha="center",
        va="center",
        family="monospace",
        fontsize=9,
        parse_math=False,
    )
    return figure


def finish(figure: Figure, title: str, study: StudyResults) -> None:
    """Title above; below the figure's own supxlabel, the data source and absent devices."""
    width = figure.get_size_inches()[0]
    figure.suptitle(title, x=0.012, ha="left", fontsize=12, fontweight="bold", parse_math=False)
    parts = [figure.get_supxlabel(), data_note(study)]
    if study.absent and study.devices:
        parts.append(f"not measured: {', '.join(study.absent)}")
    text = " · ".join(part for part in parts if part)
    lines = "\n".join(textwrap.wrap(text, int(width * 17.5)))
    figure.supxlabel(lines, x=0.012, ha="left", fontsize=7.5, color=GREY, parse_math=False)


def data_note(study: StudyResults) -> str:
    """Return where the data came from, stand-ins named as such."""
    names = {"standin": "stand-in (generated)", "files": "original files", "tfds": "TFDS"}
    words = [names.get(source, source) for source in study.sources]
    if len(words) > 1:
        words = [f"{name} ({', '.join(sets)})" for name, sets in zip(words, study.sources.values(), strict=True)]
    return f"data: {', '.join(words)}" if words else ""


def name_few_points(figure: Figure) -> None:
    """Name a figure that shows nothing to compare: no panel has a bar, a picture or two points."""
    if all(_points(axes) < 2 for axes in figure.axes):
        figure.set_gid(FEW_POINTS)


def _points(axes: Axes) -> int:
    """How many points a panel compares; a bar, a picture and a table count as two."""
    points = 2 * (len(axes.images) + len(axes.patches) + len(axes.containers) + len(axes.tables))
    for line in axes.lines:
        places = np.asarray(line.get_xydata())
        if line.get_marker() not in ("None", "none", "", None) or len(places) > 2:
            points += len({tuple(place) for place in places.tolist()})
    for drawn in axes.collections:
        points += len(np.asarray(drawn.get_offsets())) if isinstance(drawn, PathCollection) else 0
    return points


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


def runs_note(counts: Iterable[float]) -> str:
    """How many runs stand behind each point."""
    numbers = sorted({int(count) for count in counts if count == count})
    if not numbers:
        return ""
    n = f"n = {numbers[0]}" if len(numbers) == 1 else f"n = {numbers[0]} to {numbers[-1]}"
    return f"{n} processes per point" + ("; bars: 95 % t-interval" if numbers[-1] > 1 else "; no interval from one")


def shortened(text: str, length: int = 40) -> str:
    """Text cut to a length."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def whole_data(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with the largest share of the training data of each workload, sequence length and device."""
    one_curve = ["workload", "sequence_length", "device"]
    largest = cells.groupby(one_curve, dropna=False)["fraction"].transform("max")
    return cells[cells["fraction"] == largest]


def batch_axis(axes: Axes, sizes: Any) -> None:
    """A logarithmic axis labelled with the batch sizes themselves."""
    ticks = sorted({int(size) for size in sizes})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks if len(ticks) <= 8 else ticks[:: len(ticks) // 6], minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.set_xlim(ticks[0] / 1.35, ticks[-1] * 1.35)


def grid_of(figure: Figure, count: int, columns: int, **options: Any) -> list[Axes]:
    """So many panels, in rows of at most `columns`; places left over in the last row stay blank."""
    across = min(columns, count)
    panels = figure.subplots(-(-count // across), across, squeeze=False, **options).ravel()
    for panel in panels[count:]:
        panel.set_axis_off()
    return list(panels[:count])


def save(figure: Figure, out_svg: Path, out_png: Path) -> None:
    """Write both files; no date goes into them. The layout is worked out once, for the two have the same size."""
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
    for path, options in [(Path(out_svg), {"metadata": {"Date": None}}), (Path(out_png), {"dpi": 160})]:
        with replacing(path) as aside:
            figure.savefig(aside, format=path.suffix[1:], **options)  # type: ignore[arg-type]
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
