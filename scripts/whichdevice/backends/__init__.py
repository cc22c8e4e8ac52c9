"""Backends, each one file found by its name; importing one imports no framework until it is started."""

import importlib
from pathlib import Path

from whichdevice.backends.base import Backend
from whichdevice.errors import StudyError

NATIVE = {("torch", "torch"): "torch_module", ("jax", "jax"): "jax_function"}  # models that are not Keras'


def backend_names() -> list[str]:
    """The backends that this version can run: files named by letters alone, as a cell's name has them."""
    names = {path.stem for path in Path(__file__).parent.glob("*.py") if path.stem.isalpha()}
    return sorted(names - {"base"})


def backend_class(name: str, framework: str = "keras") -> type[Backend]:
    """The backend of that name, for models of Keras or for a framework's own; raises StudyError where there is none."""
    if name not in backend_names():
        raise StudyError(f"backend {name}: this version runs {', '.join(backend_names())}")
    module = importlib.import_module(backend_module(name, framework))
    return next(
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Backend) and value.__module__ == module.__name__
    )


def backend_module(name: str, framework: str = "keras") -> str:
    """The module that holds it."""
    return f"{__name__}.{NATIVE.get((name, framework), name)}"
