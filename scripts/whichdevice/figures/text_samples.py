"""Text that the character network writes, early and late."""

import textwrap

from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.figures.results import StudyResults

TITLE = "Text samples"
CAPTION = (
    "What the character network writes after its first, middle and last learned epoch. A dot stands for a "
    "character that cannot be printed."
)
CATEGORY = "Learning"
WIDTH, MOST_LINES = 46, 12


def draw(study: StudyResults) -> Figure:
    """A row per device, a column for the first, the middle and the last sampled epoch."""
    shown = [entry for entry in study.artefacts("samples") if isinstance(entry.content, list) and entry.content]
    if not shown:
        return style.empty(study, "No character network has learned, so there is no sample of its text.")
    columns = min(3, max(len(content) for _, content in shown))
    figure = style.new_figure(3.9 * columns + 0.4, 2.15 * len(shown) + 0.7)
    grid = figure.subplots(len(shown), columns, squeeze=False)
    for row, (run, content) in zip(grid, shown, strict=True):
        places = sorted({0, len(content) // 2, len(content) - 1})[-columns:] if columns > 1 else [len(content) - 1]
        for panel in row:
            panel.set_axis_off()
        for panel, place in zip(row, places, strict=False):
            sample = content[place]
            panel.set_title(f"{run['workload']} on {run['device']}, epoch {sample['epoch']}", parse_math=False)
            text = printable(str(sample["texts"][0])) if sample["texts"] else "(empty)"
            look = {"va": "top", "family": "monospace", "fontsize": 7.2, "parse_math": False}
            panel.text(0, 1, text, transform=panel.transAxes, **look)
    return figure


def printable(text: str) -> str:
    """Text as lines that fit a panel, without characters that an SVG may not hold."""
    clean = "".join(letter if letter == "\n" or letter.isprintable() else "·" for letter in text)
    lines = [part for line in clean.splitlines() for part in (textwrap.wrap(line, WIDTH) or [""])]
    return "\n".join(lines[:MOST_LINES] + (["…"] if len(lines) > MOST_LINES else []))
