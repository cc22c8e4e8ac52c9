"""What more replicas of a device bring."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words, share_words
from whichdevice.tables.measured import without_rehearsals
from whichdevice.tables.scaling import STRONG, WEAK

TITLE = "Scaling efficiency"
CAPTION = (
    "Throughput with more replicas of the same device, over that with the fewest, over the ratio of replicas: 100 % "
    "is perfect. Strong: the same batch, shared by more replicas. Weak: the same batch on each replica. The largest "
    "batch of each that ran on the most replicas; geometric means of paired repeats, bars 95 % t-intervals; "
    "hollow where something else differs too. Virtual replicas on one CPU are left out: they rehearse a program and "
    "show no scaling."
)
CATEGORY = "Scaling"
MOST_PANELS = 6
AXES = ["scaling", "device_name", "backend", "precision", "loop", "fraction", "sequence_length"]
SETTINGS = ["device_name", "backend", "precision", "loop"]


def draw(study: StudyResults) -> Figure:
    """A panel per workload; efficiency over replicas."""
    rows = style.whole_data(without_rehearsals(study.scaling))
    if rows.empty:
        only = " other than virtual ones on a CPU" if len(study.scaling) else ""
        text = f"No device was measured with several replica counts{only}: name devices with other `replicas`."
        return style.empty(study, text)
    workloads = rows["workload"].unique().tolist()
    shown = workloads[:MOST_PANELS]
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = style.new_figure(max(7.5, 3.0 * across + 0.4), 3.1 * down + 0.9)
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for panel, workload in zip(panels, shown, strict=False):
        own = rows[rows["workload"] == workload]
        panel.axhline(100, color=style.GREY, lw=1)
        for turn, (label, part, look) in enumerate(_lines(own)):
            x = part["replicas"].to_numpy(float) * 1.025**turn  # beside each other
            style.with_interval(panel, x, part, "efficiency", 100, label=label, **look)
            noted = part["note"].notna().to_numpy()
            hollow = {"ls": "", "marker": look["marker"], "color": look["color"], "mfc": style.PAPER, "zorder": 4}
            panel.plot(x[noted], 100 * part["efficiency"].to_numpy(float)[noted], **hollow)
        style.batch_axis(panel, [*own["replicas"], *own["baseline_replicas"]])
        panel.set_title(workload, parse_math=False)
        panel.set_xlabel("replicas")
        panel.legend(loc="best", fontsize=7)
    top = 100 * np.nanmax(rows[["efficiency", "efficiency_high"]].to_numpy(float))
    panels[0].set_ylim(0, max(108, min(1.08 * top, 160)))
    panels[0].set_ylabel("efficiency (%)")
    names = ", ".join(f"{name} ({', '.join(own)})" for name, own in _devices(rows, study.devices))
    cut = f"; {len(workloads) - len(shown)} more workloads in the tables" if len(workloads) > len(shown) else ""
    cut += "".join(f"; hollow: {note}" for note in rows["note"].dropna().unique())
    style.footnote(figure, f"{names}; {style.runs_note(rows['n']).replace('processes', 'pairs')}{cut}")
    return figure


def _devices(rows: pd.DataFrame, order: list[str]) -> Iterator[tuple[str, list[str]]]:
    for name, group in rows.groupby("device_name", dropna=False, sort=False):
        found = {*group["baseline"], *group["device"]}
        yield "unnamed device" if pd.isna(name) else str(name), [device for device in order if device in found]


def _lines(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, dict[str, Any]]]:
    """A line per kind of scaling and settings: the batch size with the most replica counts, then the largest."""
    letter = "N" if (rows["quantity"] == "tflops").all() else "b"
    varied = [axis for axis in SETTINGS if rows[axis].nunique(dropna=False) > 1]
    colours: dict[tuple[Any, ...], str] = {}
    for key, group in rows.groupby(AXES, dropna=False, sort=False):
        counts = group.groupby(["baseline", "baseline_batch_size"])["replicas"].nunique()
        name, size = max(counts[counts == counts.max()].index, key=lambda found: found[1])
        part = group[(group["baseline"] == name) & (group["baseline_batch_size"] == size)].sort_values("replicas")
        perfect: dict[str, Any] = {f"efficiency{end}": 1.0 for end in ("", "_low", "_high")}
        base = part.iloc[[0]].assign(replicas=part["baseline_replicas"].iloc[0], note=None, **perfect)
        colour = colours.setdefault(key[1:], style.CYCLE[len(colours) % 7])
        each = part["replica_batch_size"].iloc[0]
        batch = f"{letter}{size} in all" if key[0] == STRONG else f"{letter}{each:g} each"
        first = group.iloc[0]
        words = [*(str(first[axis]) for axis in varied), *share_words(first), *length_words(first)]
        label = ", ".join([f"{key[0]}: {batch}", *words])
        look = {"color": colour, "ls": "--" if key[0] == WEAK else "-", "marker": "s" if key[0] == WEAK else "o"}
        yield label, pd.concat([base, part]), look
