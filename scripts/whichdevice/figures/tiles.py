"""Small multiples: panels in rows, each labelled with the run that it shows; and what a classifier took for what."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures.results import StudyResults
from whichdevice.tables.row_words import run_epochs_words, share_words


def grid_of(figure: Figure, count: int, columns: int, **options: Any) -> list[Axes]:
    """So many panels, in rows of at most `columns`; places left over in the last row stay blank."""
    across = min(columns, count)
    panels = figure.subplots(-(-count // across), across, squeeze=False, **options).ravel()
    for panel in panels[count:]:
        panel.set_axis_off()
    return list(panels[:count])


def run_label(run: pd.Series, study: StudyResults) -> str:
    """Workload and device; below, batch size, epochs, and the share of the data where it is not the whole."""
    epochs = run_epochs_words(run)
    source = [run["source"]] if len(study.sources) > 1 else []
    below = ", ".join([f"b{run['batch_size']}", epochs, *share_words(run), *source])
    return f"{run['workload']} on {run['device']}\n{below}"


def predicted_classes(content: dict[str, np.ndarray]) -> np.ndarray:
    """The predicted class of each test image, int [n], as the run counted it.

    Records without it have only probabilities rounded to float16, where a near tie may fall the other way.
    """
    return (content["predicted"] if "predicted" in content else content["probabilities"].argmax(axis=1)).astype(int)
