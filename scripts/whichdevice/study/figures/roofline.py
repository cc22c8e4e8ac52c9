"""The roofline: the bounds of a step."""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.study.figures import draws, style
from whichdevice.study.figures.style import grid_of
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.measured import enough_repeats

MAX_DEVICES = 4
FORMAT_COLOURS = {"float32": style.BLUE, "tf32": style.SKY, "bfloat16": style.RED, "float16": style.PURPLE}


@draws(
    "Roofline: each workload against its device's limits",
    category="Limits",
    caption=(
        "Each workload's fastest cell (95 % t-intervals) below the roofs of its device, solid as measured here and "
        "dashed as in a sheet. Operations and bytes are counted, the bytes as fused kernels move them."
    ),
)
def draw_roofline(study: StudyResults) -> Figure | str:
    """A panel per device; a colour per number format, a marker per workload."""
    cells = style.whole_data(study.roofline[study.roofline["intensity"].notna()])
    cells = cells[cells["unit"] != "gigabyte"]  # which is the slope itself
    limits = study.limits[study.limits["ridge"].notna()]
    devices = [name for name in study.devices if name in set(limits["device"])]
    if not devices:
        return "A roof needs a matrix product and a memory stream, measured without much noise."
    shown = devices[:MAX_DEVICES]
    best = _one_each(cells, study)
    names = best["workload"].unique()
    markers = dict(zip(names, cycle(style.MARKERS), strict=False))
    across = min(2, len(shown))
    figure = style.new_figure(3.7 * across + 1.8 if across > 1 else 7.6, 4.0 * -(-len(shown) // across) + 0.8)
    panels = grid_of(figure, len(shown), across)
    for panel, device in zip(panels, shown, strict=True):
        _roofline_panel(panel, limits[limits["device"] == device], best[best["device"] == device], markers)
        panel.set_title(device, parse_math=False)
        panel.set_xlabel("FLOP / byte, counted", fontsize=8)
        panel.set_ylabel("TFLOP/s, measured" if panel in panels[::across] else "")
    formats = set(best["product"]) | set(limits["product"])
    figure.legend(handles=[*_legend(markers, formats)], loc="outside right center", fontsize=7.5)
    rest = f"; {len(devices) - len(shown)} more devices in the tables" if len(devices) > len(shown) else ""
    figure.supxlabel(f"geometric means over processes; bars: 95 % t-intervals{rest}")
    return figure


def _one_each(cells: pd.DataFrame, study: StudyResults) -> pd.DataFrame:
    """Return the fastest cell of each workload file, number format and device among those with enough good repeats."""
    named = study.study.workloads
    modules = cells["workload"].map({name: workload.module or name for name, workload in named.items()})
    cells = cells.assign(module=modules.fillna(cells["workload"]))
    one_point = ["device", "module", "product"]
    cells = cells[enough_repeats(cells["n"], [cells[name] for name in one_point])]
    return cells.loc[cells.groupby(one_point, sort=False)["tflops"].idxmax()]


def _roofline_panel(axes: Axes, limits: pd.DataFrame, cells: pd.DataFrame, markers: dict[str, str]) -> None:
    roofs = limits.drop_duplicates("product").sort_values("device_peak_tflops")
    ridges, intensities = roofs["ridge"].to_numpy(float), cells["intensity"].to_numpy(float)
    span = np.array([min([*ridges, *intensities]) / 4, max([*ridges, *intensities]) * 25])
    for _, roof in roofs.iterrows():
        colour = FORMAT_COLOURS.get(str(roof["product"]), style.BLACK)
        _roof(axes, span, roof["device_peak_tflops"], roof["device_bandwidth_gbs"], colour, "-")
        if pd.notna(roof["sheet_tflops"]) and pd.notna(roof["sheet_gbs"]):
            _roof(axes, span, roof["sheet_tflops"], roof["sheet_gbs"], colour, "--")
        peak = roof["device_peak_tflops"]
        label = f"{style.number(peak)} {roof['product']}"
        axes.annotate(label, (span[1], peak), (-3, 2), textcoords="offset points", ha="right", fontsize=7.5)
    measured = [*cells["tflops_low"], *cells["tflops"], *roofs["device_peak_tflops"]]
    low, high = np.nanmin(measured), np.nanmax([*measured, *roofs["sheet_tflops"]])
    style.log_axis(axes, "x", span)
    style.log_axis(axes, "y", [low / 6, high])
    axes.set_xlim(*span)
    axes.set_ylim(low / 6, high * 2.2)
    for _, cell in cells.iterrows():
        _point(axes, cell, markers[cell["workload"]])
    bandwidth = style.number(roofs["device_bandwidth_gbs"].iloc[0])
    cached = ", perhaps partly a cache's" if roofs["note"].notna().all() else ""
    words = f"slope: {bandwidth} GB/s, measured{cached}"
    axes.text(0.03, 0.965, words, transform=axes.transAxes, va="top", fontsize=7.5)


def _roof(axes: Axes, span: np.ndarray, tflops: float, gigabytes: float, colour: str, dashes: str) -> None:
    x = np.array([span[0], np.clip(1e3 * tflops / gigabytes, *span), span[1]])
    axes.plot(x, np.minimum(x * gigabytes / 1e3, tflops), color=colour, ls=dashes, lw=1.6 if dashes == "-" else 1.1)


def _point(axes: Axes, cell: pd.Series, marker: str) -> None:
    value, colour = cell["tflops"], FORMAT_COLOURS.get(str(cell["product"]), style.BLACK)
    ends = np.array([[value - cell["tflops_low"]], [cell["tflops_high"] - value]])
    bars = np.clip(ends, 0, None) if np.isfinite(ends).all() else None
    axes.errorbar(cell["intensity"], value, yerr=bars, fmt=marker, color=colour, capsize=2.5, elinewidth=1)


def _legend(markers: dict[str, str], formats: set[str]) -> Iterator[Any]:
    for name, colour in FORMAT_COLOURS.items():
        if name in formats:
            yield Line2D([], [], color=colour, lw=3, label=name)
    yield Line2D([], [], color=style.GREY, label="roof, measured")
    yield Line2D([], [], color=style.GREY, ls="--", lw=1.1, label="roof, sheet")
    for name, marker in markers.items():
        yield Line2D([], [], ls="", marker=marker, color=style.GREY, label=name)
