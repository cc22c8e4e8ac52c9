"""Figures of a study, each found by its name: a new one needs no edit elsewhere.

A figure is a function `draw_<name>(study) -> Figure | str` under `@draws(title, category=..., caption=...)`; the text
says why there is nothing to draw. A file may hold several figures of one subject.
Listing figures and reading their captions imports no Matplotlib, so that the Snakefile
can do it while it is read.
"""

import importlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from whichdevice.base.errors import StudyError
from whichdevice.base.plugins import decorated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from whichdevice.study.results import StudyResults

    Draw = Callable[[StudyResults], Figure | str]

FIGURES_FOLDER = Path(__file__).parent


class Facts(NamedTuple):
    """The facts that a figure states about itself."""

    title: str
    caption: str
    category: str


def draws(title: str, *, category: str, caption: str) -> "Callable[[Draw], Draw]":
    """Declare a function `draw_<name>` as figure `<name>`. All three are literals: they are read from the source."""
    return lambda draw: draw


def figure_names() -> list[str]:
    """The names of the figures, sorted."""
    return sorted(_found())


def figure_facts(name: str) -> Facts:
    """Title, caption and category of a figure. Raises StudyError when there is no such figure."""
    return _where(name)[1]


def figure_modules(*names: str) -> list[str]:
    """The dotted names of the modules that hold these figures."""
    return sorted({f"{__package__}.{_where(name)[0]}" for name in names})


def _where(name: str) -> tuple[str, Facts]:
    if name not in _found():
        raise StudyError(f"no figure {name!r}; there are {', '.join(sorted(_found()))}")
    return _found()[name]


@cache
def _found() -> dict[str, tuple[str, Facts]]:
    """Return, for each figure, the file that holds it, and its facts."""
    return {
        plugin.name.removeprefix("draw_"): (
            plugin.module,
            Facts(plugin.arguments[0], plugin.arguments["caption"], plugin.arguments["category"]),
        )
        for plugin in decorated(FIGURES_FOLDER, "draws")
        if plugin.name.startswith("draw_")
    }


def draw_all(names: Iterable[str], tables_folder: Path, config_path: Path, folder: Path) -> None:
    """Draw these figures from a study's tables into <folder>/<name>.svg and .png."""
    from whichdevice.study.results import StudyResults

    study = StudyResults(config_path, tables_folder)
    for name in names:
        draw(name, study, folder / f"{name}.svg", folder / f"{name}.png")


def draw(name: str, study: "StudyResults", out_svg: Path, out_png: Path) -> None:
    """Draw a figure from a study's tables into an SVG and a PNG file; no PNG where there is nothing to draw."""
    module, facts = _where(name)

    from whichdevice.study.figures import style

    draw_figure: Draw = getattr(importlib.import_module(f"{__package__}.{module}"), f"draw_{name}")
    with style.applied():
        drawn = draw_figure(study)
        if isinstance(drawn, str):
            style.save(style.blank(drawn), out_svg)
            out_png.unlink(missing_ok=True)
            return
        style.finish(drawn, facts.title, study)
        style.save(drawn, out_svg, out_png)
