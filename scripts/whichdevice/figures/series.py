"""Lines and labels that several figures share: cells as series, whole numbers on batch axes, intervals as bars."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from whichdevice.figures import style
from whichdevice.tables.base import length_words, share_words

RATIOS = [1, 2, 0.5, 5, 0.2, 1.5, 0.8, 1.2, 0.9, 1.1, 3, 0.7, 0.6, 0.95, 1.05, 4, 0.3, 7]
USUAL = {"backend": "tensorflow", "precision": "float32", "loop": "epoch", "fraction": 1.0}
UNNAMED = "TensorFlow, float32, many steps in one program and all of the data where nothing else is named"
NAMED = ("workload", "batch_size")
SETTINGS = ["workload", "device", "backend", "precision", "loop", "sequence_length"]
SERIES_AXES = ["device", "backend", "precision", "loop", "sequence_length", "fraction"]


def whole_data(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with the largest share of the training data of each workload, sequence length and device."""
    own = ["workload", "sequence_length", "device"]
    largest = cells.groupby(own, dropna=False)["fraction"].transform("max")
    return cells[cells["fraction"] == largest]


def shared(cells: pd.DataFrame, most: int) -> pd.DataFrame:
    """Cells to draw: all, or of each device the first ones of the config, chosen without a look at the result."""
    each = max(1, most // max(1, cells["device"].nunique()))
    return cells if len(cells) <= most else cells.groupby("device", sort=False).head(each)


def capped(cells: pd.DataFrame, most: int, sizes: Sequence[str] = ("batch_size",)) -> pd.DataFrame:
    """Rows to draw: all, or the largest size of each setting, shared out over workloads and of these over devices.

    Chosen by what was run, never by the result. Errors: the index has to rise, as that of a table does.
    """
    if len(cells) <= most:
        return cells
    settings = [*SETTINGS, *(["model"] if "model" in cells else [])]  # two models of one name are two works
    largest = cells.sort_values(list(sizes), kind="stable").drop_duplicates(settings, keep="last").sort_index()
    turn = largest.groupby(["workload", "device"], sort=False).cumcount().sort_values(kind="stable")
    in_turn = largest.loc[turn.index].groupby("workload", sort=False).cumcount().sort_values(kind="stable")
    return largest.loc[in_turn.index[:most].sort_values()]


def left_out(cells: pd.DataFrame, shown: pd.DataFrame) -> str:
    """The workloads of which no row is shown, as words of a footnote."""
    missing = [name for name in cells["workload"].unique() if name not in set(shown["workload"])]
    return f"; only in the tables: {', '.join(missing)}" if missing else ""


def labels(cells: pd.DataFrame, axes: list[str], always: Sequence[str] = ()) -> list[str]:
    """A label per cell from the first axis, those `always` told, and those whose values differ between the cells."""
    told = [axes[0], *always]
    shown = [axis for axis in axes if axis in told or cells[axis].nunique(dropna=False) > 1]
    return [_joined(row, shown) for _, row in cells.iterrows()]


def names(cells: pd.DataFrame) -> list[str]:
    """A short name per cell: workload and size, and of the rest only what varies or is not the usual."""
    varied = [axis for axis in ("device", "sequence_length") if cells[axis].nunique(dropna=False) > 1]
    told = []
    for _, cell in cells.iterrows():
        shown = ["workload", "device", "batch_size", "sequence_length", *USUAL]
        shown = [axis for axis in shown if (cell[axis] != USUAL[axis] if axis in USUAL else axis in (*NAMED, *varied))]
        told.append(_joined(cell, shown))
    return told


def _joined(cell: pd.Series, axes: list[str]) -> str:
    return " ".join(part for axis in axes if (part := _written(axis, cell[axis], cell.get("unit"))))


def _written(axis: str, value: Any, unit: Any) -> str:
    if axis == "batch_size":
        return f"N{value}" if unit == "product" else f"b{value}"
    if axis == "fraction":
        return " ".join(share_words({"fraction": value}))
    if axis == "sequence_length":
        return " ".join(length_words({"sequence_length": value}))
    return "" if pd.isna(value) else str(value)


def lines(cells: pd.DataFrame, study: Any) -> Iterator[tuple[str, pd.DataFrame, dict[str, Any]]]:
    """Each series of `cells` (all but the batch size equal): its label, cells and line style."""
    colours, places = style.device_colours(study), style.device_places(study)
    groups = list(cells.assign(label=labels(cells, SERIES_AXES)).groupby("label", sort=False))
    devices = [str(group["device"].iloc[0]) for _, group in groups]
    for place, (label, group) in enumerate(groups):
        device, marker = devices[place], markers(devices, places)[place]
        dashes = ["-", "--", ":", "-."][devices[:place].count(device) % 4]
        yield str(label), group, {"color": colours[device], "linestyle": dashes, "marker": marker}


def markers(devices: Sequence[str], places: Mapping[str, int]) -> list[str]:
    """A marker for each of these lines or points: its device's own for the first of a device, else one not yet taken.

    So that they can be told apart without their colours.
    """
    own = {device: style.MARKERS[places[device] % len(style.MARKERS)] for device in devices}
    spare = [marker for marker in style.MARKERS if marker not in own.values()] or style.MARKERS
    found, taken = [], 0
    for place, device in enumerate(devices):
        first = device not in devices[:place]
        found.append(own[device] if first else spare[taken % len(spare)])
        taken += not first
    return found


def with_interval(axes: Axes, x: Any, cells: pd.DataFrame, column: str, scale: float = 1.0, **look: Any) -> None:
    """A line through `column` with its 95 % interval as bars, where there is one."""
    middle = cells[column].to_numpy(float) * scale
    axes.errorbar(x, middle, yerr=bars(cells, column, scale), capsize=2.5, elinewidth=1, **look)


def bars(cells: pd.DataFrame, column: str, scale: float = 1.0) -> np.ndarray:
    """How far the ends of the interval lie below and above: [2, cells], 0 where there is none."""
    middle, low, high = (cells[f"{column}{end}"].to_numpy(float) * scale for end in ("", "_low", "_high"))
    return np.clip(np.nan_to_num(np.vstack([middle - low, high - middle])), 0, None)


def with_band(axes: Axes, x: Any, cells: pd.DataFrame, column: str, scale: float = 1.0, **look: Any) -> Any:
    """A line through `column` with its 95 % interval as a band, and at each point as a bar; returns the line."""
    low, high = (cells[f"{column}_{end}"].to_numpy(float) * scale for end in ("low", "high"))
    axes.fill_between(x, low, high, color=look["color"], alpha=0.18, lw=0)
    with_interval(axes, x, cells, column, scale, **look)
    return axes.containers[-1]


def ratio_axis(axes: Axes, values: Iterable[float]) -> None:
    """A logarithmic axis of ratios with labels that suit small differences as well as large ones; 1 is always on it."""
    found = [1.0, *(value for value in values if np.isfinite(value))]
    low, high = min(0.97, min(found) / 1.05), max(1.03, max(found) * 1.05)
    style.log_axis(axes, "x", found)
    if high / low < 8:
        ticks: list[float] = []
        for tick in RATIOS:  # the roundest first; none closer than a label is wide
            apart = [abs(np.log(tick / other)) / np.log(high / low) for other in ticks]
            if low <= tick <= high and min(apart, default=1) > 0.13:
                ticks.append(tick)
        axes.set_xticks(sorted(ticks), [style.number(tick) for tick in sorted(ticks)])
        axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)


def batch_axis(axes: Axes, sizes: Any) -> None:
    """A logarithmic axis labelled with the batch sizes themselves."""
    found = sorted({int(size) for size in sizes})
    axes.set_xscale("log", base=2)
    axes.set_xticks(found if len(found) <= 8 else found[:: len(found) // 6], minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(style.FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.set_xlim(found[0] / 1.35, found[-1] * 1.35)
