"""Test images that were taken for another class, first and in red, then some that were not."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.figures.style import grid_of, predicted_classes, run_label
from whichdevice.results import StudyResults

TITLE = "What the classifiers get wrong"
CAPTION = (
    "Test images of each classifier: misclassified ones first, framed and labelled in red, sorted by the confidence of "
    "the mistake; then images classified rightly. Labels read predicted → true, with the probability that the network "
    "gave its prediction. Each classifier's run with the most data and epochs and the best quality, on whatever device."
)
CATEGORY = "Learning"
ACROSS, DOWN, SIDE, LABEL_ROWS = 6, 5, 34, 17
COLUMNS = 2
RED, PALE = (213, 40, 0), (225, 225, 225)


def draw(study: StudyResults) -> Figure:
    """A mosaic per classifier, of its best run on whatever device."""
    shown = list(study.best_artefacts("predictions", one_per=["workload"]))
    if not shown:
        return style.empty(study, "No image classifier has learned, so there is no gallery.")
    figure = style.new_figure(4.5 * min(COLUMNS, len(shown)) + 0.2, 4.9 * -(-len(shown) // COLUMNS) + 0.7)
    for panel, (run, content) in zip(grid_of(figure, len(shown), COLUMNS), shown, strict=True):
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
    picture = np.zeros((max(1, -(-len(chosen) // ACROSS)) * height, ACROSS * SIDE, 4), np.uint8)  # clear: no paper
    for place, tile in enumerate(chosen):
        top, left = place // ACROSS * height, place % ACROSS * SIDE
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
    wrong = wrong[: ACROSS * (DOWN - 1) if len(right) else ACROSS * DOWN]
    return np.concatenate([wrong, right[: ACROSS * DOWN - len(wrong)]])
