"""Tables, each one file of this folder that begins with "Table `<name>`: what it holds", found by its name.

Such a file has COLUMNS and `make(sources)`, which takes what the table needs from `sources`, other tables included.
Listing tables and what they hold does not import them, so the Snakefile can do it while it is read.
"""

import re
from pathlib import Path

from whichdevice.errors import StudyError

FOLDER = Path(__file__).parent


def table_names() -> list[str]:
    """The names of the tables of every study, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if _about(path) is not None)


def table_about(name: str) -> str:
    """What a table holds, by the first sentence of its file. Raises StudyError for an unknown table."""
    path = FOLDER / f"{name}.py"
    about = _about(path) if path.is_file() else None
    if about is None:
        raise StudyError(f"no table {name!r}; tables are {', '.join(table_names())}")
    return about


def _about(path: Path) -> str | None:
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    found = re.match(rf'"""Table `{path.stem}`: (.+?)\.?(""")?$', first)
    return found[1] if found else None


__all__ = ["table_about", "table_names"]
