"""Tables of a study. A new one is a function in a file of this folder, and needs no edit elsewhere.

    @makes("how each device feels", COLUMNS)
    def make_moods(sources: Sources) -> pd.DataFrame:

It takes what it needs from `sources`, other tables included; `COLUMNS` is a dictionary, or `columns_of("moods")` where
columns.csv has them. A file may hold several tables of one subject. Listing tables and what they hold imports none, so
the Snakefile can do it while it is read.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from whichdevice.base.errors import StudyError
from whichdevice.base.plugins import Plugin, decorated

Make = TypeVar("Make", bound=Callable[[Any], Any])
TABLES_FOLDER = Path(__file__).parent


class Table(NamedTuple):
    """How a table is made from sources, and its columns by name."""

    make: Callable[[Any], Any]
    columns: Mapping[str, Any]


_declared: dict[str, Table] = {}


def makes(about: str, columns: Mapping[str, Any]) -> Callable[[Make], Make]:
    """Declare a function `make_<name>` as the one that makes table `<name>` of these columns.

    `about` says in a sentence what the table holds: a literal, as it is read from the source.
    """

    def declare(make: Make) -> Make:
        _declared[_name(make.__name__)] = Table(make, columns)
        return make

    return declare


def table_names() -> list[str]:
    """The names of the tables of every study, sorted."""
    return sorted(_found(TABLES_FOLDER))


def table_about(name: str) -> str:
    """Return what a table holds, in one sentence. Raises StudyError for an unknown table."""
    return str(_where(name).arguments[0])


def get_table(name: str) -> Table:
    """A table's function and columns. Raises StudyError for an unknown table."""
    import_module(f"{__package__}.{_where(name).module}")
    return _declared[name]


def table_modules() -> list[str]:
    """The dotted names of the modules that hold tables."""
    return sorted({f"{__package__}.{plugin.module}" for plugin in _found(TABLES_FOLDER).values()})


def _where(name: str) -> Plugin:
    plugins = _found(TABLES_FOLDER)
    if name not in plugins:
        raise StudyError(f"no table {name!r}; tables are {', '.join(sorted(plugins))}")
    return plugins[name]


@cache
def _found(folder: Path) -> dict[str, Plugin]:
    return {_name(plugin.name): plugin for plugin in decorated(folder, "makes")}


def _name(function: str) -> str:
    return function.removeprefix("make_")
