"""Text that the character network writes, epoch by epoch."""

import textwrap
from typing import Any

from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.figures.style import grid_of
from whichdevice.results import StudyResults

TITLE = "Text samples"
CAPTION = (
    "What the character network writes after each learned epoch (of more than twelve, evenly spread ones), character "
    "by character from its own probabilities. A dot stands for a character that cannot be printed."
)
CATEGORY = "Learning"
WIDTH, MOST_LINES = 40, 10
LONGEST = 5000  # characters looked at, which more than fill a panel
MOST_SAMPLES, COLUMNS = 12, 3


def draw(study: StudyResults) -> Figure:
    """A block per workload (its best run), in it a panel for each sampled epoch."""
    shown = [entry for entry in study.best_artefacts("samples", one_per=["workload"]) if entry.content]
    if not shown:
        return style.empty(study, "No character network has learned, so there is no sample of its text.")
    panels = [(run, content[place]) for run, content in shown for place in _places(len(content))]
    figure = style.new_figure(3.1 * min(COLUMNS, len(panels)) + 0.2, 1.75 * -(-len(panels) // COLUMNS) + 0.8)
    for axes, (run, sample) in zip(grid_of(figure, len(panels), COLUMNS), panels, strict=True):
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
    return "\n".join(lines[:MOST_LINES] + (["…"] if len(lines) > MOST_LINES else []))
