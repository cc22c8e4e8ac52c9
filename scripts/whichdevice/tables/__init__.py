"""Tables of a study, each found by its name: a new one needs no edit elsewhere.

A table is a function `make_<name>(sources)` under `@makes(columns)`, which takes what it needs from `sources`, other
tables included. Its docstring, or that of its file, begins with "Table `<name>`: what it holds". A file may hold
several tables of one subject. Listing tables and what they hold imports none, so the Snakefile can do it while it is
read.
"""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from whichdevice.errors import StudyError

if TYPE_CHECKING:
    import pandas as pd

    from whichdevice.tables.base import Column, Sources

    Make = Callable[[Sources], pd.DataFrame]

FOLDER = Path(__file__).parent
ABOUT = re.compile(r'^ *"""Table `(\w+)`: (.+?)\.?(?:""")?$', re.MULTILINE)


class Table(NamedTuple):
    """How a table is made, and its columns."""

    make: "Make"
    columns: "Mapping[str, Column]"


_declared: dict[str, Table] = {}


def makes(columns: "Mapping[str, Column]") -> "Callable[[Make], Make]":
    """Declare a function `make_<name>` as the one that makes table `<name>` of these columns."""

    def declare(make: "Make") -> "Make":
        _declared[make.__name__.removeprefix("make_")] = Table(make, columns)
        return make

    return declare


def table_names() -> list[str]:
    """The names of the tables of every study, sorted."""
    return sorted(_found())


def table_about(name: str) -> str:
    """What a table holds, in one sentence. Raises StudyError for an unknown table."""
    return _where(name)[1]


def get_table(name: str) -> Table:
    """A table's function and columns. Raises StudyError for an unknown table."""
    import_module(f"{__package__}.{_where(name)[0]}")
    return _declared[name]


def table_modules() -> list[str]:
    """The dotted names of the modules that hold tables."""
    return sorted({f"{__package__}.{module}" for module, _ in _found().values()})


def _where(name: str) -> tuple[str, str]:
    found = _found()
    if name not in found:
        raise StudyError(f"no table {name!r}; tables are {', '.join(sorted(found))}")
    return found[name]


def _found() -> dict[str, tuple[str, str]]:
    """For each table the file that holds it, and what it holds."""
    return {
        name: (path.stem, about)
        for path in FOLDER.glob("*.py")
        for name, about in ABOUT.findall(path.read_text(encoding="utf-8"))
    }
