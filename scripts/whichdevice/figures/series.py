"""Lines and labels that several figures share: cells as series, whole numbers on batch axes, intervals as bars."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from whichdevice.figures import style

SERIES_AXES = ["device", "backend", "precision", "loop", "sequence_length", "fraction"]


def whole_data(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with the largest share of the training data of each workload and device."""
    largest = cells.groupby(["workload", "device"])["fraction"].transform("max")
    return cells[cells["fraction"] == largest]


def labels(cells: pd.DataFrame, axes: list[str]) -> list[str]:
    """A label per cell from the first axis and those whose values differ between the cells."""
    shown = [axis for axis in axes if axis == axes[0] or cells[axis].nunique(dropna=False) > 1]
    return [" ".join(_written(axis, row[axis], row.get("unit")) for axis in shown) for _, row in cells.iterrows()]


def _written(axis: str, value: Any, unit: Any) -> str:
    if axis == "batch_size":
        return f"N{value}" if unit == "product" else f"b{value}"
    if axis == "fraction":
        return f"{value * 100:.3g} % of data"
    if axis == "sequence_length":
        return "" if pd.isna(value) else f"length {value}"
    return str(value)


def lines(cells: pd.DataFrame, study: Any) -> Iterator[tuple[str, pd.DataFrame, dict[str, Any]]]:
    """Each series of `cells` (all but the batch size equal): its label, cells and line style."""
    colours, places = style.device_colours(study), style.device_places(study)
    varied = cells.assign(label=labels(cells, SERIES_AXES))
    seen: dict[str, int] = {}
    for label, group in varied.groupby("label", sort=False):
        device = group["device"].iloc[0]
        turn = seen[device] = seen.get(device, -1) + 1
        dashes = ["-", "--", ":", "-."][turn % 4]
        marker = style.MARKERS[(places[device] + 2 * turn) % len(style.MARKERS)]
        yield str(label), group, {"color": colours[device], "linestyle": dashes, "marker": marker}


def with_interval(axes: Axes, x: Any, cells: pd.DataFrame, column: str, scale: float = 1.0, **look: Any) -> None:
    """A line through `column` with its 95 % interval as bars, where there is one."""
    middle = cells[column].to_numpy(float) * scale
    low, high = (cells[f"{column}_{end}"].to_numpy(float) * scale for end in ("low", "high"))
    spread = np.nan_to_num(np.vstack([middle - low, high - middle]))
    axes.errorbar(x, middle, yerr=np.clip(spread, 0, None), capsize=2.5, elinewidth=1, **look)


def batch_axis(axes: Axes, sizes: Any) -> None:
    """A logarithmic axis labelled with the batch sizes themselves."""
    found = sorted({int(size) for size in sizes})
    axes.set_xscale("log", base=2)
    axes.set_xticks(found if len(found) <= 8 else found[:: len(found) // 6], minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(style.FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.set_xlim(found[0] / 1.35, found[-1] * 1.35)
