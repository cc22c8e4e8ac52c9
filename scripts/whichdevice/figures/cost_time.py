"""What a million examples cost on each device, against the time that they take."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.figures import style
from whichdevice.figures.style import front, grid_of
from whichdevice.results import StudyResults
from whichdevice.tables.board import FORECAST, MEASURED, WORK

TITLE = "Cost against time"
CAPTION = (
    "US dollars and seconds for a million examples; left and low is better. Filled: measured; open: forecast. Along a "
    "bar, an interval, time and cost move together. No other device beats those on the Pareto front in both."
)
CATEGORY = "Cost"
ACROSS = 2
MILLION = 1e6
SIZE = 7.5  # points of a label
# Where a label may go beside its point, best first: points to the right and up, and what of it is there.
PLACES = [(6, -3, "left"), (-6, -3, "right"), (0, 7, "center"), (0, -13, "center"), (7, 8, "left"), (-7, 8, "right")]
NEAR = len(PLACES)  # from which on a line leads to the point
PLACES += [(7, -14, "left"), (-7, -14, "right"), (14, 18, "left"), (-14, 18, "right"), (14, -24, "left")]


def draw(study: StudyResults) -> Figure:
    """One panel per workload with two priced devices or more, both axes logarithmic."""
    known = study.board[study.board["usd_per_million_examples"].notna() & study.board["throughput"].notna()]
    works = [rows for _, rows in known.groupby(WORK, dropna=False, sort=False) if len(rows) > 1]
    if not works:
        return style.empty(study, "Fewer than two devices have a price and a time for the same work.")
    across = min(ACROSS, len(works))
    down = -(-len(works) // across)
    figure = style.new_figure(9.5, 3.1 * down + 0.8)
    colours = style.device_colours(study)
    panels = list(zip(grid_of(figure, len(works), across), works, strict=True))
    for axes, rows in panels:
        _panel(axes, rows, colours)
    handles = [
        Line2D([], [], ls="", marker="o", color=style.GREY, label="measured"),
        Line2D([], [], ls="", marker="o", color=style.GREY, mfc=style.PAPER, label="forecast"),
        Line2D([], [], color=style.FAINT, lw=4, label="Pareto front"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=3)
    style.footnote(figure, "prices on demand, cheapest offer of the price sheet with its date in tables/board.csv")
    style.without_data(figure)
    figure.draw_without_rendering()  # places the panels, so that labels know their room
    for axes, rows in panels:
        _label(axes, rows)
    return figure


def _seconds(rows: pd.DataFrame, end: str = "") -> np.ndarray:
    return np.asarray(MILLION / rows[f"throughput{end}"].to_numpy(float))


def _panel(axes: Axes, rows: pd.DataFrame, colours: dict[str, str]) -> None:
    times, costs = _seconds(rows), rows["usd_per_million_examples"].to_numpy(float)
    best = front(times, costs, higher=False)
    axes.plot(times[best], costs[best], color=style.FAINT, lw=4, drawstyle="steps-post", zorder=1)
    prices = [rows[end].to_numpy(float) for end in ("usd_low", "usd_high")]
    ends = [_seconds(rows, "_high"), _seconds(rows, "_low")], prices
    for place, (_, row) in enumerate(rows.iterrows()):
        colour = colours.get(row["device"], style.KIND_COLOURS[row["kind"]])
        face = colour if row["evidence"] == MEASURED else style.PAPER
        across, along = ([end[place] for end in each] for each in ends)
        axes.plot(across, along, color=colour, lw=1.2, alpha=0.45, zorder=2)
        axes.plot(times[place], costs[place], "o", color=colour, mfc=face, ms=6, zorder=3)
    style.log_axis(axes, "x", np.concatenate([*ends[0], times]))
    style.log_axis(axes, "y", np.concatenate([*ends[1], costs]))
    axes.margins(0.12)
    first = rows.iloc[0]
    letter = "N" if first["unit"] == "product" else "batch"
    small = ", the host decides" if rows.loc[rows["evidence"] == FORECAST, "host_decides"].fillna(False).any() else ""
    axes.set_title(f"{first['workload']}, {letter} {first['batch']}{small}", parse_math=False)
    axes.set_xlabel(f"s for a million {first['unit']}s", fontsize=8)
    axes.set_ylabel(f"USD for a million {first['unit']}s", fontsize=8)


def _label(axes: Axes, rows: pd.DataFrame) -> None:
    """Write each device beside its point, where no other point and no other label is."""
    scale = 72 / axes.figure.dpi
    points = axes.transData.transform(np.column_stack([_seconds(rows), rows["usd_per_million_examples"]])) * scale
    room = np.asarray(axes.bbox.extents) * scale
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    places = zip(points, rows["device"], _seconds(rows), rows["usd_per_million_examples"], strict=True)
    for (x, y), name, seconds, usd in places:
        boxes = [_box(x, y, place, str(name)) for place in PLACES]
        hits = [sum(_overlap(box, other) for other in taken) + 3 * _outside(box, room) for box in boxes]
        chosen = hits.index(min(hits))
        taken.append(boxes[chosen])
        right, up, side = PLACES[chosen]
        axes.annotate(
            str(name), (seconds, usd), (right, up), xycoords="data", textcoords="offset points",
            ha=side, fontsize=SIZE, parse_math=False,
            arrowprops=None if chosen < NEAR else {"arrowstyle": "-", "color": style.FAINT, "lw": 0.7},
        )  # fmt: skip


Box = tuple[float, float, float, float]


def _box(x: float, y: float, place: tuple[int, int, str], text: str) -> Box:
    right, up, side = place
    wide = 0.6 * SIZE * len(text)
    left = x + right - {"left": 0.0, "center": wide / 2, "right": wide}[side]
    return left, y + up - 2, left + wide, y + up + SIZE


def _overlap(one: Box, other: Box) -> float:
    """Area that two boxes share."""
    wide, high = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0.0) * max(high, 0.0)


def _outside(box: Box, room: np.ndarray) -> float:
    return max(room[0] - box[0], 0) + max(box[2] - room[2], 0) + max(room[1] - box[1], 0) + max(box[3] - room[3], 0)
