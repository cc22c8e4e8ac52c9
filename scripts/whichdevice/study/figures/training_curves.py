"""How the measured runs learned: loss and quality over time, a panel for each workload and quantity."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.base.numbers import two
from whichdevice.study.figures import draws, style
from whichdevice.study.results import StudyResults

QUANTITIES = ("loss", "metric")
MAX_WORKLOADS = 6
STAND_IN = "generated stand-in data: how fast it learns counts, accuracies mean nothing"


@draws(
    "How did the models learn?",
    category="Pictures",
    caption=(
        "Loss and quality of a run of each workload, over the seconds that it trained and was evaluated. Solid lines "
        "are of training since the point before, dashed ones of held-out data, a part of them where time was limited."
    ),
)
def draw_training_curves(study: StudyResults) -> Figure | str:
    """A row per workload, a colour per device and backend."""
    curves = study.curves
    if curves.empty:
        return "No run learned."
    workloads = list(dict.fromkeys(curves["workload"]))
    names = list(dict.fromkeys(curves["device"] + ", " + curves["backend"]))[: len(style.CYCLE)]
    looks: dict[str, dict[str, Any]] = {
        name: {"color": colour, "marker": marker, "ms": 3.5, "lw": 1.3}
        for name, colour, marker in zip(names, style.CYCLE, style.MARKERS, strict=False)
    }
    panels = [
        (rows, quantity)
        for _, rows in curves[curves["workload"].isin(workloads[:MAX_WORKLOADS])].groupby("workload", sort=False)
        for quantity in QUANTITIES
        if rows[[quantity, f"validation_{quantity}"]].notna().any(axis=None)
    ]
    figure = style.new_figure(style.WIDTH, 1.9 * -(-len(panels) // 2) + 1.0)
    for axes, (rows, quantity) in zip(style.grid_of(figure, len(panels), 2), panels, strict=True):
        _panel(axes, rows, quantity, looks)
    lines = [Line2D([], [], label=name, **look) for name, look in looks.items()]
    lines += [Line2D([], [], color=style.GREY, label="training")]
    lines += [Line2D([], [], color=style.GREY, ls="--", marker="o", mfc=style.PAPER, ms=3.5, label="held out")]
    style.legend_below(figure, lines)
    unshown = f"; {len(workloads) - MAX_WORKLOADS} more in table curves" if len(workloads) > MAX_WORKLOADS else ""
    stand_in = f"; {STAND_IN}" if (curves["source"] == "standin").any() else ""
    figure.supxlabel(f"seconds of training and evaluation{unshown}{stand_in}")
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, quantity: str, looks: dict[str, dict[str, Any]]) -> None:
    """Draw the first run of each device and backend."""
    first = rows[rows["run"].isin(rows.drop_duplicates(["device", "backend"])["run"])]
    for (device, backend), run in first.groupby(["device", "backend"], sort=False):
        look = looks.get(f"{device}, {backend}")
        dashed: dict[str, Any] = {"ls": "--", "mfc": style.PAPER}
        for name, other in ((quantity, {}), (f"validation_{quantity}", dashed)):
            known = run[run[name].notna()]
            if look is not None and len(known):
                axes.plot(known["seconds"], known[name], **look | other)
    row = rows.iloc[-1]
    quantity_name = "loss" if quantity == "loss" else row["metric_name"]
    epochs = two(rows["passed"].max())
    axes.set_title(f"{row['workload']}: {quantity_name}, {epochs} epochs", fontsize=8.5, parse_math=False)
    axes.tick_params(labelsize=7.5)
    axes.set_xlabel("seconds", fontsize=7.5)
