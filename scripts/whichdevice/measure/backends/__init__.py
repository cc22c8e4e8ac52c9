"""Backends: each a class under `@backend(name)` in a file of this folder; importing one imports no framework."""

import importlib
from functools import cache
from pathlib import Path

from whichdevice.base.errors import StudyError
from whichdevice.base.plugins import Plugin, decorated
from whichdevice.measure.backends.base import Backend

BACKENDS_FOLDER = Path(__file__).parent


def backend_names() -> list[str]:
    """The backends that this version can run, sorted."""
    return sorted({name for name, _ in _found(BACKENDS_FOLDER)})


def backend_class(name: str, framework: str = "keras") -> type[Backend]:
    """The backend of that name, for models of Keras or for a framework's own; raises StudyError where there is none."""
    if name not in backend_names():
        raise StudyError(f"backend {name}: this version runs {', '.join(backend_names())}")
    chosen: type[Backend] = getattr(importlib.import_module(backend_module(name, framework)), _of(name, framework).name)
    return chosen


def backend_module(name: str, framework: str = "keras") -> str:
    """The module that holds it."""
    return f"{__name__}.{_of(name, framework).module}"


def _of(name: str, framework: str) -> Plugin:
    plugins = _found(BACKENDS_FOLDER)
    return plugins.get((name, framework)) or plugins[name, "keras"]


@cache
def _found(folder: Path) -> dict[tuple[str, str], Plugin]:
    return {(one.arguments[0], one.arguments.get("framework", "keras")): one for one in decorated(folder, "backend")}
