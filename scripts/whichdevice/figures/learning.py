"""What models learned: curves, confusion matrices, mistakes, samples of text, weather forecasts."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from whichdevice.figures import draws, style
from whichdevice.results import StudyResults

TRAINING_CURVES_MOST_LINES = 4
TRAINING_CURVES_ACROSS = 2


@draws(
    "Training curves",
    category="Learning",
    caption=(
        "Loss and quality after each learned epoch, on training data (dashed, hollow) and validation data (solid, "
        "filled). One line pair per device and batch size, from the first repeat that learned. Training loss is a "
        "mean over the epoch, with dropout on. A last point between two epochs: train.seconds ended the run there."
    ),
)
def draw_training_curves(study: StudyResults) -> Figure:
    """Two panels per workload, loss and metric. The largest share of the data, one run per cell."""
    epochs = study.epochs
    if epochs.empty:
        return style.empty(study, "No run has learned (train.epochs is 0, or every learning run failed).")
    epochs = style.whole_data(epochs)
    workloads = epochs["workload"].drop_duplicates().tolist()
    across = min(TRAINING_CURVES_ACROSS, len(workloads))
    down = -(-len(workloads) // across)
    figure = style.new_figure(4.6 * across + 0.2 if across > 1 else 6.5, 2.3 * down + 1.0)
    grid = figure.subplots(down, 2 * across, squeeze=False)
    pairs = [(row[2 * place], row[2 * place + 1]) for row in grid for place in range(across)]
    for loss, quality in pairs[len(workloads) :]:
        loss.set_axis_off()
        quality.set_axis_off()
    colours, places = style.device_colours(study), style.device_places(study)
    for (above, below), workload in zip(pairs, workloads, strict=False):
        own = epochs[epochs["workload"] == workload]
        for device in own["device"].drop_duplicates():
            runs = _first_runs(own[own["device"] == device])[
                : TRAINING_CURVES_MOST_LINES if own["device"].nunique() == 1 else 1
            ]
            for place, (size, run) in enumerate(runs):
                marker = style.MARKERS[(places.get(device, 0) + place) % len(style.MARKERS)]
                look = {"color": colours.get(device, style.GREY), "marker": marker, "alpha": 1 - 0.2 * place}
                _pair(above, run, "loss", f"{device} b{size}", look)
                _pair(below, run, "metric", f"{device} b{size}", look)
        above.set_title(workload, parse_math=False)
        above.set_ylabel("loss")
        _finish(above, below, own)
    lines = [
        Line2D([], [], color=style.BLACK, marker="o", label="validation"),
        Line2D([], [], color=style.BLACK, marker="o", mfc="white", ls="--", lw=1, label="training"),
    ]
    figure.legend(handles=lines, loc="outside upper right", ncols=2)
    style.footnote(figure, "one run per line; several devices: the largest batch of each")
    return figure


def _first_runs(epochs: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    """The first learning run of each batch size, the largest batch first."""
    found: dict[int, pd.DataFrame] = {}
    for _, rows in epochs.groupby("run", sort=False):
        found.setdefault(int(rows["batch_size"].iloc[0]), rows.sort_values("epoch"))
    return sorted(found.items(), reverse=True)


def _pair(axes: Axes, run: pd.DataFrame, name: str, label: str, look: dict) -> None:
    x = run["passed"].to_numpy(float)
    if run[f"validation_{name}"].notna().any():
        axes.plot(x, run[f"validation_{name}"], label=label, markersize=4, **look)
        axes.plot(x, run[name], mfc="white", ls="--", lw=1, markersize=4, **look)
    elif run[name].notna().any():
        axes.plot(x, run[name], mfc="white", ls="--", lw=1, markersize=4, label=label, **look)


def _finish(above: Axes, below: Axes, own: pd.DataFrame) -> None:
    for axes in (above, below):
        axes.set_xlabel("epoch", fontsize=8)
        axes.set_xlim(min(0.6, own["passed"].min() * 0.8), own["passed"].max() + 0.4)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    metric = own["metric_name"].dropna()
    below.set_ylabel(str(metric.iloc[0]) if len(metric) else "", parse_math=False)
    shown = [axes for axes in (above, below) if axes.lines]
    if shown:
        shown[-1].legend(loc="best", fontsize=7)
    if not below.lines:
        below.text(
            0.5,
            0.5,
            "no metric:\nthe loss counts",
            ha="center",
            va="center",
            color=style.GREY,
            transform=below.transAxes,
        )
        below.set_yticks([])
        below.grid(False)
