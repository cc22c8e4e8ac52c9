"""What models learned: curves, confusion matrices, mistakes, samples of text, weather forecasts."""

import textwrap
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from whichdevice.figures import draws, style
from whichdevice.figures.style import grid_of, predicted_classes, run_label
from whichdevice.results import StudyResults
from whichdevice.tables.base import run_epochs_words

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


FEW = 4  # matrices that stand two in a row


@draws(
    "Confusion matrices",
    category="Learning",
    caption=(
        "Test images by true class (rows) and predicted class (columns), for each classifier and device: the learning "
        "run with the most data and epochs. Shades show the share of a row on a logarithmic scale, so that rare "
        "mistakes are seen; numbers are counts."
    ),
)
def draw_confusion_matrix(study: StudyResults) -> Figure:
    """A matrix per classifier and device."""
    shown = list(study.best_artefacts("predictions"))
    if not shown:
        return style.empty(study, "No image classifier has learned, so there are no predictions.")
    across = 2 if len(shown) <= FEW else 3
    width = (9.2 - 0.2) / across
    figure = style.new_figure(width * min(across, len(shown)) + 0.2, (width + 0.3) * -(-len(shown) // across) + 0.7)
    for panel, (run, content) in zip(grid_of(figure, len(shown), across), shown, strict=True):
        labels = content["labels"].astype(int)
        predicted = predicted_classes(content)
        names = [str(name) for name in content["class_names"]]
        counts = np.zeros((len(names), len(names)), int)
        np.add.at(counts, (labels, predicted), 1)
        _matrix(panel, counts, names)
        wrong = int((labels != predicted).sum())
        panel.set_title(f"{run_label(run, study)}\n{wrong:,} of {len(labels):,} wrong", parse_math=False, fontsize=8.5)
    return figure


def _matrix(axes: Axes, counts: np.ndarray, names: list[str]) -> None:
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    strength = np.clip((np.log10(np.maximum(share, 1e-4)) + 4) / 4, 0, 1)
    picture = np.zeros((*counts.shape, 4))  # one colour, more or less clear, so that it stands on light and dark paper
    picture[..., :3], picture[..., 3] = to_rgb(style.DEEP), strength
    axes.imshow(picture, interpolation="nearest")
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = style.LIGHT if strength[row, column] > 0.75 else style.BLACK
            axes.text(
                column, row, str(count), ha="center", va="center", fontsize=6.5 if len(names) <= 10 else 5, color=colour
            )
    long = max(len(name) for name in names) > 3
    axes.set_xticks(range(len(names)), names, rotation=90 if long else 0, fontsize=7, parse_math=False)
    axes.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
    axes.set_xlabel("predicted", fontsize=8)
    axes.set_ylabel("true", fontsize=8)
    axes.grid(False)
    axes.tick_params(length=0)


ERROR_GALLERY_ACROSS, DOWN, SIDE, LABEL_ROWS = 6, 5, 34, 17
ERROR_GALLERY_COLUMNS = 2
RED, PALE = (213, 40, 0), (225, 225, 225)


@draws(
    "What the classifiers get wrong",
    category="Learning",
    caption=(
        "Test images of each classifier: misclassified ones first, framed and labelled in red, sorted by the "
        "confidence of the mistake; then images classified rightly. Labels read predicted → true, with the "
        "probability that the network gave its prediction. Each classifier's run with the most data and epochs and "
        "the best quality, on whatever device."
    ),
)
def draw_error_gallery(study: StudyResults) -> Figure:
    """A mosaic per classifier, of its best run on whatever device."""
    shown = list(study.best_artefacts("predictions", one_per=["workload"]))
    if not shown:
        return style.empty(study, "No image classifier has learned, so there is no gallery.")
    figure = style.new_figure(
        4.5 * min(ERROR_GALLERY_COLUMNS, len(shown)) + 0.2, 4.9 * -(-len(shown) // ERROR_GALLERY_COLUMNS) + 0.7
    )
    for panel, (run, content) in zip(grid_of(figure, len(shown), ERROR_GALLERY_COLUMNS), shown, strict=True):
        wrong = int((content["labels"] != predicted_classes(content)).sum())
        _mosaic(panel, content)
        title = f"{run_label(run, study)}\n{wrong:,} of {len(content['labels']):,} wrong"
        panel.set_title(title, parse_math=False, fontsize=8.5)
    style.footnote(figure, "red: misclassified, predicted → true")
    return figure


def _mosaic(axes: Axes, content: dict[str, np.ndarray]) -> None:
    """All tiles as one picture, so that the SVG stays small; labels as text below each tile."""
    names = [str(name) for name in content["class_names"]]
    between = "\n→ " if max(map(len, names)) > 2 else " → "
    labels, predicted = content["labels"].astype(int), predicted_classes(content)
    index = content["gallery_index"].astype(int)
    sure = content["probabilities"][index, predicted[index]].astype(float)
    chosen = _chosen(labels[index] != predicted[index], sure)
    height = SIDE + LABEL_ROWS + (8 if between[0] == "\n" else 0)
    picture = np.zeros(
        (max(1, -(-len(chosen) // ERROR_GALLERY_ACROSS)) * height, ERROR_GALLERY_ACROSS * SIDE, 4), np.uint8
    )  # clear: no paper
    for place, tile in enumerate(chosen):
        top, left = place // ERROR_GALLERY_ACROSS * height, place % ERROR_GALLERY_ACROSS * SIDE
        true, guess = labels[index[tile]], predicted[index[tile]]
        mistaken = true != guess
        picture[top + 1 : top + SIDE - 1, left + 1 : left + SIDE - 1] = (*RED, 255) if mistaken else (*PALE, 255)
        picture[top + 3 : top + 31, left + 3 : left + 31, :3] = 255 - content["gallery_images"][tile][..., None]
        axes.text(
            left + SIDE / 2, top + SIDE + 1,
            f"{names[guess]}{between + names[true] if mistaken else ''}\n{100 * sure[tile]:.0f} %",
            ha="center", va="top", fontsize=6, color=style.ERROR if mistaken else style.GREY, parse_math=False,
            linespacing=1.05,
        )  # fmt: skip
    axes.imshow(picture, interpolation="nearest")
    axes.set_axis_off()


def _chosen(mistaken: np.ndarray, sure: np.ndarray) -> np.ndarray:
    """Mistakes first, the surest leading; the last row for images classified rightly, where there are any."""
    ordered = np.argsort(-sure, kind="stable")
    wrong, right = ordered[mistaken[ordered]], ordered[~mistaken[ordered]]
    wrong = wrong[: ERROR_GALLERY_ACROSS * (DOWN - 1) if len(right) else ERROR_GALLERY_ACROSS * DOWN]
    return np.concatenate([wrong, right[: ERROR_GALLERY_ACROSS * DOWN - len(wrong)]])


WIDTH, TEXT_SAMPLES_MOST_LINES = 40, 10
LONGEST = 5000  # characters looked at, which more than fill a panel
MOST_SAMPLES, TEXT_SAMPLES_COLUMNS = 12, 3


@draws(
    "Text samples",
    category="Learning",
    caption=(
        "What the character network writes after each learned epoch (of more than twelve, evenly spread ones), "
        "character by character from its own probabilities. A dot stands for a character that cannot be printed."
    ),
)
def draw_text_samples(study: StudyResults) -> Figure:
    """A block per workload (its best run), in it a panel for each sampled epoch."""
    shown = [entry for entry in study.best_artefacts("samples", one_per=["workload"]) if entry.content]
    if not shown:
        return style.empty(study, "No character network has learned, so there is no sample of its text.")
    panels = [(run, content[place]) for run, content in shown for place in _places(len(content))]
    figure = style.new_figure(
        3.1 * min(TEXT_SAMPLES_COLUMNS, len(panels)) + 0.2, 1.75 * -(-len(panels) // TEXT_SAMPLES_COLUMNS) + 0.8
    )
    for axes, (run, sample) in zip(grid_of(figure, len(panels), TEXT_SAMPLES_COLUMNS), panels, strict=True):
        axes.set_axis_off()
        axes.set_title(f"{run['workload']} on {run['device']}, epoch {sample['epoch']}", fontsize=8, parse_math=False)
        text = printable(str(sample["texts"][0])) if sample["texts"] else "(empty)"
        look: dict[str, Any] = {
            "va": "top",
            "family": "monospace",
            "fontsize": 6.6,
            "parse_math": False,
            "clip_on": True,
        }
        axes.text(0, 1, text, transform=axes.transAxes, **look)
    return figure


def _places(count: int) -> list[int]:
    """Which of so many samples to show, evenly spread."""
    step = max(1, -(-(count - 1) // (MOST_SAMPLES - 1)))
    return sorted({*range(0, count, step), count - 1})


def printable(text: str) -> str:
    """Text as lines that fit a panel, without characters that an SVG may not hold."""
    clean = "".join(letter if letter == "\n" or letter.isprintable() else "·" for letter in text[:LONGEST])
    lines = [part for line in clean.splitlines() for part in (textwrap.wrap(line, WIDTH) or [""])]
    return "\n".join(lines[:TEXT_SAMPLES_MOST_LINES] + (["…"] if len(lines) > TEXT_SAMPLES_MOST_LINES else []))


MOST_STEPS = 600


@draws(
    "Weather: predicted and true",
    category="Learning",
    caption=(
        "A day-ahead forecast by the recurrent network beside what happened, on data that it was not trained on. In "
        "the greyed steps the network has seen too little to predict; neither the loss nor the eye should count them."
    ),
)
def draw_weather_forecast(study: StudyResults) -> Figure:
    """A panel per signal; the truth in black, one coloured line per device."""
    shown = list(study.best_artefacts("forecast"))
    if not shown:
        return style.empty(study, "No weather network has learned, so there is no forecast.")
    first = shown[0].content
    left_out = [f"{run['workload']} on {run['device']}" for run, content in shown if not _same_weather(content, first)]
    shown = [entry for entry in shown if _same_weather(entry.content, first)]
    figure = style.new_figure(9, 1.9 * len(first["names"]) + 0.9)
    panels = figure.subplots(len(first["names"]), 1, sharex=True, squeeze=False)[:, 0]
    colours, places = style.device_colours(study), style.device_places(study)
    steps = min(MOST_STEPS, len(first["times"]))
    times = [datetime.fromtimestamp(int(second), UTC) for second in first["times"][:steps]]
    workloads = {entry.run["workload"] for entry in shown}
    of = {name: f", {name}," if len(workloads) > 1 else "" for name in workloads}
    for signal, panel in enumerate(panels):
        panel.plot(times, first["truth"][:steps, signal], color=style.BLACK, lw=1, label="true")
        for run, content in shown:
            device = run["device"]
            panel.plot(
                times[: len(content["predicted"])], content["predicted"][:steps, signal], lw=1.2,
                color=colours[device], ls=["-", "--", ":"][places[device] % 3],
                label=f"predicted{of[run['workload']]} on {device}",
            )  # fmt: skip
        warm_up = min(int(first["warm_up"]), steps - 1)
        panel.axvspan(times[0], times[warm_up], color=style.PALE, alpha=0.75, lw=0, zorder=1.5)
        panel.set_title(str(first["names"][signal]), parse_math=False)
        panel.set_ylabel(str(first["units"][signal]), parse_math=False)
        panel.margins(x=0)
    _fit(panels, first, steps)
    locator = AutoDateLocator()
    panels[-1].xaxis.set_major_locator(locator)
    panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))
    handles, texts = panels[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper right", ncols=min(len(handles), 2 if len(workloads) > 1 else 3))
    run = shown[0].run
    more = f"; of other data, not drawn: {', '.join(left_out)}" if left_out else ""
    style.footnote(
        figure,
        f"grey: warm-up of {int(first['warm_up'])} steps; {first['split']} data; "
        f"first {steps} of {len(first['times'])} hours; "
        f"{run_epochs_words(run)} of {run['steps_per_epoch']} steps, b{run['batch_size']}{more}",
    )
    return figure


def _same_weather(content: dict[str, np.ndarray], first: dict[str, np.ndarray]) -> bool:
    """Whether a forecast is of the same signals, hours and truth, rounded as another library rounds."""
    if any(content[name].tolist() != first[name].tolist() for name in ("names", "times")):
        return False
    return np.allclose(content["truth"], first["truth"], rtol=1e-4, atol=1e-3, equal_nan=True)


def _fit(panels: np.ndarray, content: dict[str, np.ndarray], steps: int) -> None:
    """Limits from the truth and the warm forecast, so that a wild warm-up does not flatten the rest."""
    start = min(int(content["warm_up"]), steps - 1)
    for signal, panel in enumerate(panels):
        values = np.concatenate([content["truth"][:steps, signal], content["predicted"][start:steps, signal]])
        finite = values[np.isfinite(values)]
        if finite.size:
            room = 0.06 * (finite.max() - finite.min()) or 1
            panel.set_ylim(finite.min() - room, finite.max() + room)
