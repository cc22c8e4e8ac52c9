"""How the measured runs learned: loss and quality, over epochs and over time."""

from itertools import product
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.study.figures import draws, style
from whichdevice.study.results import StudyResults

QUANTITIES = {"loss": "loss", "metric": "quality"}
OVER = {"passed": "epochs", "elapsed": "seconds of training and validation"}
DASHES = {"training": "-", "validation": "--"}


@draws(
    "How did the models learn?",
    category="Pictures",
    caption=(
        "Loss (logarithmic) and quality at the end of each epoch of a measured run of each workload, over epochs and "
        "over time: solid lines are of training, dashed ones of validation."
    ),
)
def draw_training_curves(study: StudyResults) -> Figure | str:
    """Two columns, over epochs and over time; a colour per run."""
    curves = elapsed(study.epochs)
    if curves.empty:
        return "No run learned."
    first = curves.drop_duplicates(["workload", "device", "backend"])
    shown = first.head(len(style.CYCLE))
    looks: dict[str, dict[str, Any]] = {
        run: {"color": colour, "marker": marker, "ms": 4.5}
        for run, colour, marker in zip(shown["run"], style.CYCLE, style.MARKERS, strict=False)
    }
    known = [name for name in QUANTITIES if curves[[name, f"validation_{name}"]].notna().any(axis=None)]
    figure = style.new_figure(style.WIDTH, 2.3 * len(known) + 1.4)
    panels = style.grid_of(figure, 2 * len(known), 2)
    for axes, (quantity, over) in zip(panels, product(known, OVER), strict=True):
        _panel(axes, curves[curves["run"].isin(list(looks))], quantity, over, looks)
    names = [f"{row['workload']}, {row['device']} {row['backend']}" for _, row in shown.iterrows()]
    lines = [Line2D([], [], label=name, **look) for name, look in zip(names, looks.values(), strict=True)]
    kinds = [Line2D([], [], color=style.GREY, ls=dashes, label=kind) for kind, dashes in DASHES.items()]
    style.legend_below(figure, [*lines, *kinds])
    rest = f"; {len(first) - len(shown)} more in table epochs" if len(first) > len(shown) else ""
    figure.supxlabel(f"one run of each workload, device and backend{rest}")
    return figure


def elapsed(epochs: pd.DataFrame) -> pd.DataFrame:
    """Return the epochs with what the run took until the end of each, in seconds."""
    spent = epochs["seconds"] + epochs["validation_seconds"].fillna(0.0)
    return epochs.assign(elapsed=spent.groupby(epochs["run"]).cumsum())


def _panel(axes: Axes, curves: pd.DataFrame, quantity: str, over: str, looks: dict[str, dict[str, Any]]) -> None:
    for run, rows in curves.groupby("run", sort=False):
        for name, dashes, filled in ((quantity, "-", {}), (f"validation_{quantity}", "--", {"mfc": style.PAPER})):
            if rows[name].notna().any():
                axes.plot(rows[over], rows[name], ls=dashes, **looks[str(run)] | filled)
    if quantity == "loss":
        style.log_axis(axes, "y", [*curves["loss"], *curves["validation_loss"]])
    if over == "elapsed":
        style.log_axis(axes, "x", curves["elapsed"])
    axes.set_xlabel(OVER[over], fontsize=8)
    axes.set_title(f"{QUANTITIES[quantity]} over {'epochs' if over == 'passed' else 'time'}")
