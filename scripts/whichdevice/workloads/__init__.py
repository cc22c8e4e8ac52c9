"""Workloads, each one file found by its name. A workload knows data and model, never a device.

Importing a workload imports no framework; Keras is imported when a model is built.
"""

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from whichdevice.errors import StudyError
from whichdevice.workloads.base import Workload

INFRASTRUCTURE = {"__init__", "base", "batch_order", "costs", "image_classifier", "losses"}


def workload_names() -> list[str]:
    """The built-in workloads: every file of this folder that holds one."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in INFRASTRUCTURE)


def is_file_module(module: str) -> bool:
    """Whether a workload's `module` is a path to a file rather than a built-in name."""
    return module.endswith(".py") or "/" in module or "\\" in module


def workload_class(module: str) -> type[Workload]:
    """The workload that a built-in name or a path to a .py file holds.

    Raises StudyError when there is no such file, it does not import, or it holds no workload.
    """
    source = _import_file(Path(module)) if is_file_module(module) else _import_built_in(module)
    found = [
        value
        for value in vars(source).values()
        if isinstance(value, type) and issubclass(value, Workload) and value.__module__ == source.__name__
    ]
    if len(found) != 1:
        raise StudyError(f"workload {module}: holds {len(found)} workload classes; it needs exactly one")
    return found[0]


def _import_built_in(name: str) -> ModuleType:
    if name not in workload_names():
        raise StudyError(f"no built-in workload {name!r}; there are {', '.join(workload_names())}")
    return importlib.import_module(f"{__name__}.{name}")


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise StudyError(f"workload file {path}: not found")
    name = f"workload_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise StudyError(f"workload file {path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise StudyError(f"workload file {path}: {type(error).__name__}: {error}") from error
    return module
