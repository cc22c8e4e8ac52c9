"""Environment variables that hide devices from a process."""

import os


def visible_list(*names: str) -> tuple[str, list[str]] | None:
    """The first of these variables that is set, as (name, entries); None when all are unset."""
    for name in names:
        if name in os.environ:
            return name, [entry.strip() for entry in os.environ[name].split(",") if entry.strip()]
    return None
