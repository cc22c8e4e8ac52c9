"""What each table holds, in its own module's words, read without importing anything."""

import re
from pathlib import Path

from whichdevice.errors import StudyError


def table_about(name: str) -> str:
    """The first sentence of a table's module after its name. Raises StudyError where there is no such table."""
    path = Path(__file__).parent / f"{name}.py"
    first = path.read_text(encoding="utf-8").split("\n", 1)[0] if path.is_file() else ""
    found = re.match(rf'"""Table `{name}`: (.+?)\.?(""")?$', first)
    if found is None:
        raise StudyError(f"no table {name!r}: {path.name} does not begin with what it holds")
    return found[1]
