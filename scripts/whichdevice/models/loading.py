"""Workloads: built-in ones, each a file found by its name, and everybody's own models. A workload knows no device.

Importing a workload imports no framework; Keras is imported when a model is built.
"""

import hashlib
import importlib
import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

from whichdevice.code_hash import code_hash
from whichdevice.errors import StudyError
from whichdevice.models.address import Address, built_in_names, is_path, read_address
from whichdevice.models.declaration import is_model_file, read_declaration
from whichdevice.models.framework import JAX, TORCH
from whichdevice.models.hugging_face import hub_class
from whichdevice.models.jax_model import JaxFile
from whichdevice.models.libraries import ready_model_class
from whichdevice.models.model_file import error_line, model_file_class
from whichdevice.models.scripts import script_class, trains
from whichdevice.models.torch_model import TorchFile
from whichdevice.workloads.base import Options, Workload

__all__ = ["is_path", "read_address", "workload_class", "workload_hash", "workload_names"]

workload_names = built_in_names
NATIVE = {TORCH: TorchFile, JAX: JaxFile}  # kinds of model files without Keras
_classes: dict[tuple[str, int, int], type[Workload]] = {}  # by address and the state of its file
_imported: dict[str, Path] = {}  # root folders of modules that workloads imported, by the modules' first names


def workload_class(module: str) -> type[Workload]:
    """The workload that a name stands for: see whichdevice.models.address.

    A model's file is only read, not run: what is wrong in it shows when the workload is used. Raises StudyError where
    there is nothing of that name, or a file with a workload class of its own does not import or holds several.
    """
    address = read_address(module)
    state = address.path.stat() if address.path is not None else None
    key = (module, state.st_mtime_ns, state.st_size) if state else (module, 0, 0)
    if key not in _classes:
        made = _class_of(address)
        if getattr(made, "found", made) is None:  # a script that was not looked at yet
            return made
        _classes[key] = made
    return _classes[key]


def workload_hash(module: str, *entries: str) -> str:
    """Hash of the package's modules `entries` and of all code and files that the workload consists of."""
    address = read_address(module)
    if address.kind == "built-in":
        return code_hash(*entries, f"whichdevice.workloads.{module}")
    if address.kind in ("library", "hub"):
        maker = "libraries" if address.kind == "library" else "hugging_face"
        code = code_hash(*entries, f"whichdevice.models.{maker}", files=address.files())
    else:
        code = code_hash(*entries, files=address.files())
    if address.kind == "file" and not address.arguments:
        return code
    return hashlib.sha256(f"{code} {address.library} {address.function} {address.arguments}".encode()).hexdigest()[
        : len(code)
    ]


def _class_of(address: Address) -> type[Workload]:
    if address.kind in ("saved", "library"):
        made = ready_model_class(address)
    elif address.kind == "hub":
        made = hub_class(address, TorchFile)
    elif trains(address):
        made = script_class(address, NATIVE)
    else:
        assert address.path is not None
        load = partial(_import, address)
        if address.kind != "function" and not is_model_file(address.path):
            return _class_in(load(), address.text)
        declared = read_declaration(address.path, address.function)
        made = model_file_class(address, load, declared, NATIVE.get(declared.framework))
    made.again = staticmethod(_again)
    return made


def _again(module: str, options: Options) -> Workload:
    return workload_class(module)(options)


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


def _import(address: Address) -> ModuleType:
    """The module of a workload's file; raises StudyError in one line where it cannot be imported."""
    if address.kind == "built-in":
        return importlib.import_module(f"whichdevice.workloads.{address.text}")
    assert address.path is not None and address.root is not None
    _look_first_in(address.root)
    name = address.module or f"workload_{address.path.stem}_{_digest(address.path)}"
    known = set(sys.modules)
    try:
        return importlib.import_module(name) if address.module else _import_file(name, address.path)
    except (Exception, SystemExit) as error:
        raise StudyError(f"workload file {address.path}: {error_line(error, address)}") from error
    finally:
        for module in set(sys.modules) - known:
            file = getattr(sys.modules[module], "__file__", None)
            if file and Path(file).is_relative_to(address.root) and "site-packages" not in Path(file).parts:
                _imported.setdefault(module.partition(".")[0], address.root)


def _look_first_in(root: Path) -> None:
    """Have imports look in this folder first, and forget modules that another workload's folder gave the same way."""
    folder = str(root.absolute())
    for other in {str(each) for each in _imported.values()} - {folder}:
        if other in sys.path and other != str(Path.cwd()):
            sys.path.remove(other)
    for name, origin in list(_imported.items()):
        if origin != root and name != "whichdevice":
            for module in [each for each in sys.modules if each.partition(".")[0] == name]:
                del sys.modules[module]
            del _imported[name]
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _import_file(name: str, path: Path) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise StudyError(f"workload file {path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _digest(path: Path) -> str:
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
