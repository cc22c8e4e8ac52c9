"""How the measured runs learned: loss and quality, over epochs and over time."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from whichdevice.study.figures import draws, style
from whichdevice.study.results import StudyResults

PANELS = [("loss", "passed"), ("loss", "elapsed"), ("metric", "passed"), ("metric", "elapsed")]
AXIS_LABELS = {"passed": "epochs", "elapsed": "seconds of training and validation", "loss": "loss", "metric": "quality"}
DASHES = {"training": "-", "validation": "--"}
MAX_RUNS = len(style.CYCLE)


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
    runs = list(curves.drop_duplicates(["workload", "device", "backend"])["run"])
    shown = curves[curves["run"].isin(runs[:MAX_RUNS])]
    panels = [panel for panel in PANELS if shown[[panel[0], f"validation_{panel[0]}"]].notna().any(axis=None)]
    figure = style.new_figure(style.WIDTH, 2.3 * (len(panels) // 2) + 1.4)
    looks = {run: _look(place) for place, run in enumerate(runs[:MAX_RUNS])}
    for axes, (quantity, over) in zip(style.grid_of(figure, len(panels), 2), panels, strict=True):
        _panel(axes, shown, quantity, over, looks)
    kinds = [Line2D([], [], color=style.GREY, ls=dashes, label=kind) for kind, dashes in DASHES.items()]
    style.legend_below(figure, [*_legend(shown, looks), *kinds])
    rest = f"; {len(runs) - MAX_RUNS} more in table epochs" if len(runs) > MAX_RUNS else ""
    alone = "; a point alone: train.seconds ended the run in its first epoch" if (shown["passed"] < 1).any() else ""
    figure.supxlabel(f"one run of each workload, device and backend{alone}{rest}")
    return figure


def elapsed(epochs: pd.DataFrame) -> pd.DataFrame:
    """Return the epochs with what the run took until the end of each, in seconds."""
    spent = epochs["seconds"] + epochs["validation_seconds"].fillna(0.0)
    return epochs.assign(elapsed=spent.groupby(epochs["run"]).cumsum())


def _look(place: int) -> dict[str, Any]:
    return {"color": style.CYCLE[place], "marker": style.MARKERS[place], "ms": 4.5}


def _panel(axes: Axes, curves: pd.DataFrame, quantity: str, over: str, looks: dict[str, dict[str, Any]]) -> None:
    ends: list[float] = []
    for run, rows in curves.groupby("run", sort=False):
        for kind, dashes in DASHES.items():
            values = rows[quantity if kind == "training" else f"validation_{quantity}"]
            if values.notna().any():
                filled = {} if kind == "training" else {"mfc": style.PAPER}
                axes.plot(rows[over], values, ls=dashes, **looks[str(run)] | filled)
                ends += values.dropna().tolist()
    if quantity == "loss":
        style.log_axis(axes, "y", ends)
    if over == "elapsed":
        style.log_axis(axes, "x", curves["elapsed"])
    else:
        axes.set_xlim(0, curves["passed"].max() * 1.08)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel(AXIS_LABELS[over], fontsize=8)
    axes.set_title(f"{AXIS_LABELS[quantity]} over {'epochs' if over == 'passed' else 'time'}")


def _legend(curves: pd.DataFrame, looks: dict[str, dict[str, Any]]) -> list[Line2D]:
    first = curves.drop_duplicates("run").set_index("run")
    several = first["device"].nunique() > 1 or first["backend"].nunique() > 1
    handles = []
    for run, look in looks.items():
        row = first.loc[run]
        name = str(row["metric_name"])
        metric = "" if name == "nan" else f", {name}"
        where = f", {row['device']} {row['backend']}" if several else ""
        handles.append(Line2D([], [], label=f"{row['workload']}{where}{metric}", **look))
    return handles
