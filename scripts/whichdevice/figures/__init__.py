"""Figures, each one file of this folder with TITLE, CAPTION, CATEGORY and `draw(study) -> Figure`, found by its name.

Listing figures and reading their captions imports no Matplotlib, so that the Snakefile can do it while it is read.
"""

import ast
import importlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from whichdevice.code_hash import parsed
from whichdevice.errors import StudyError

if TYPE_CHECKING:
    from whichdevice.results import StudyResults


SHARED = {"__init__", "style"}
ON_REQUEST = "Compare"  # category of figures that no study has of itself


class Facts(NamedTuple):
    """What a figure says about itself."""

    title: str
    caption: str
    category: str


def figure_names() -> list[str]:
    """The names of the figures of every study, sorted."""
    return [name for name in _names() if figure_facts(name).category != ON_REQUEST]


def _names() -> list[str]:
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in SHARED)


@cache
def figure_facts(name: str) -> Facts:
    """Title, caption and category of a figure, read from its source. Raises StudyError when there is no such figure."""
    if name not in _names():
        raise StudyError(f"no figure {name!r}; there are {', '.join(_names())}")
    source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in parsed(source).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
        if node.targets[0].id in ("TITLE", "CAPTION", "CATEGORY")
    }
    return Facts(constants["TITLE"], constants["CAPTION"], constants["CATEGORY"])


def draw_all(names: Iterable[str], tables_folder: Path, config_path: Path, folder: Path) -> list[str]:
    """Draw these figures from a study's tables, read once, into <folder>/<name>.svg and .png.

    Returns a line for each run whose damaged files they pass over.
    """
    from whichdevice.results import StudyResults

    study = StudyResults(config_path, tables_folder)
    for name in names:
        _draw(name, study, folder / f"{name}.svg", folder / f"{name}.png")
    return [f"left out of the figures: {why}" for why in study.left_out.values()]


def draw(name: str, tables_folder: Path, config_path: Path, out_svg: Path, out_png: Path) -> None:
    """Draw a figure from a study's tables into an SVG and a PNG file."""
    from whichdevice.results import StudyResults

    _draw(name, StudyResults(config_path, tables_folder), out_svg, out_png)


def _draw(name: str, study: "StudyResults", out_svg: Path, out_png: Path) -> None:
    facts = figure_facts(name)

    from whichdevice.figures import style

    module = importlib.import_module(f"{__package__}.{name}")
    with style.applied():
        figure = module.draw(study)
        style.name_few_points(figure)
        style.finish(figure, facts.title, study)
        style.save(figure, out_svg, out_png)
