"""Workloads, each one file found by its name. A workload knows data and model, never a device.

Importing a workload imports no framework; Keras is imported when a model is built.
"""

import hashlib
import importlib
import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

from whichdevice.errors import StudyError
from whichdevice.workloads.base import Workload
from whichdevice.workloads.declaration import is_model_file
from whichdevice.workloads.file_errors import told
from whichdevice.workloads.model_file import model_file_class

INFRASTRUCTURE = {
    "__init__",
    "base",
    "batch_order",
    "constants",
    "costs",
    "declaration",
    "decoder_layers",
    "file_errors",
    "framework",
    "generated_data",
    "given_data",
    "image_classifier",
    "jax_model",
    "losses",
    "model_file",
    "model_shapes",
    "named_losses",
    "native",
    "native_model",
    "torch_model",
}


def workload_names() -> list[str]:
    """The built-in workloads: every file of this folder that holds one."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in INFRASTRUCTURE)


def is_file_module(module: str) -> bool:
    """Whether a workload's `module` is a path to a file rather than a built-in name."""
    return module.endswith(".py") or "/" in module or "\\" in module


def workload_class(module: str) -> type[Workload]:
    """The workload that a built-in name or a path to a .py file holds.

    A model file is only read, not run: what is wrong in it shows when the workload is used. Raises StudyError when
    there is no such file, or a file with a workload class of its own does not import or holds several.
    """
    path = _path_of(module)
    state = path.stat()
    key = (module, state.st_mtime_ns, state.st_size)
    if key not in _classes:
        _refuse_results(path)
        load = partial(_import_file, path) if is_file_module(module) else partial(_import_built_in, module)
        _classes[key] = model_file_class(module, path, load) if is_model_file(path) else _class_in(load(), module)
    return _classes[key]


_classes: dict[tuple[str, int, int], type[Workload]] = {}  # by file and its state


def _class_in(source: ModuleType, module: str) -> type[Workload]:
    """The one workload class that a file defines."""
    found = [
        value
        for value in vars(source).values()
        if isinstance(value, type) and issubclass(value, Workload) and value.__module__ == source.__name__
    ]
    if len(found) != 1:
        raise StudyError(f"workload {module}: holds {len(found)} workload classes; it needs exactly one")
    return found[0]


def _path_of(module: str) -> Path:
    """The file of a workload; raises StudyError where there is none."""
    if not is_file_module(module):
        if module not in workload_names():
            raise StudyError(f"no built-in workload {module!r}; there are {', '.join(workload_names())}")
        return Path(__file__).with_name(f"{module}.py")
    path = Path(module)
    if not path.is_file():
        raise StudyError(f"workload file {path}: not found")
    if path.suffix != ".py":
        raise StudyError(f"workload file {path}: not a Python file; its name must end in .py")
    return path


def _refuse_results(path: Path) -> None:
    """Raise StudyError of a file below results/: records and files of other people lie there."""
    if path.resolve().is_relative_to(Path("results").resolve()):
        raise StudyError(
            f"workload file {path}: lies below results/, where files of other people may lie, and is never run; "
            "look at it, and copy it elsewhere"
        )


def _import_built_in(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def _import_file(path: Path) -> ModuleType:
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
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise StudyError(f"workload file {path}: {told(error, path)}") from error
    return module
