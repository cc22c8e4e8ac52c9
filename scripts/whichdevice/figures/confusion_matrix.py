"""Which class was taken for which."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.figures.style import grid_of, predicted_classes, run_label
from whichdevice.results import StudyResults

TITLE = "Confusion matrices"
CAPTION = (
    "Test images by true class (rows) and predicted class (columns), for each classifier and device: the learning "
    "run with the most data and epochs. Shades show the share of a row on a logarithmic scale, so that rare "
    "mistakes are seen; numbers are counts."
)
CATEGORY = "Learning"
FEW = 4  # matrices that stand two in a row


def draw(study: StudyResults) -> Figure:
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
