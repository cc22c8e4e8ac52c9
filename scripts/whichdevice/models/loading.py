"""A model as the user named it, read once and handed on: see whichdevice.models.address for what a name may be.

    model = Model.read("train.py -- --lr 0.1")
    model.recipe.batch_size
    model.workload(Options(batch_size=64))

Reading imports no framework and runs nothing of a model's file: what is wrong in it shows when its workload is used.
"""

import hashlib
import importlib
import importlib.util
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, Self

from whichdevice.base.code_hash import code_hash
from whichdevice.base.errors import StudyError
from whichdevice.models.address import ARGUMENTS, Address, read_address
from whichdevice.models.declaration import Declaration, is_model_file, read_declaration
from whichdevice.models.diffusion import diffusion_name
from whichdevice.models.diffusion_training import DiffusionModel, diffusion_adapter
from whichdevice.models.framework import JAX, TORCH
from whichdevice.models.hugging_face import HubModel, hub_adapter
from whichdevice.models.jax_model import JaxFile
from whichdevice.models.libraries import LibraryModel, library_adapter, saved_adapter
from whichdevice.models.model_file import Adapter, ModelFile, error_line
from whichdevice.models.objectives import DEFAULT, names
from whichdevice.models.script.found import Found
from whichdevice.models.script.look import ScriptAdapter, script_adapter, trains
from whichdevice.models.shapes import leaves
from whichdevice.models.torch_model import ScriptFile, TorchFile
from whichdevice.models.workloads.base import Options, Recipe, TrainingWorkload, Workload

NATIVE: dict[str, type[ModelFile]] = {TORCH: TorchFile, JAX: JaxFile}  # kinds of model files without Keras
HUB_CODE = [  # what makes a model of Hugging Face, with what is imported by name
    "whichdevice.models.hugging_face", "whichdevice.models.diffusion_training",
    *(f"whichdevice.models.objectives.{name}" for name in names() if name != DEFAULT),
]  # fmt: skip
_makers: "dict[Model, Maker]" = {}
_imported: dict[str, Path] = {}  # root folders of modules that workloads imported, by the modules' first names


class Asked(Protocol):
    """The settings that a run asks of its model, as the record's request has it."""

    batch_size: int
    precision: str
    fraction: float
    sequence_length: int | None
    options: dict[str, Any]


class Maker(NamedTuple):
    """The parts that make a model's workloads: their class, and the adapter of a model that has no class."""

    kind: type[Workload]
    adapter: Adapter | None
    make: Callable[[Options], Workload]


@dataclass(frozen=True)
class Model:
    """The thing that a name stands for, at one state of its file."""

    address: Address
    state: tuple[int, int] = (0, 0)  # when its file was last written, and its size

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what a user wrote as a model; raises StudyError where there is no such thing."""
        address = read_address(text)
        if address.path is None:
            return cls(address)
        status = address.path.stat()
        return cls(address, (status.st_mtime_ns, status.st_size))

    @classmethod
    def find(cls, text: str) -> Self | None:
        """Return the model; None where there is no such thing here, as a file of another machine."""
        try:
            model = cls.read(text)
            _ = model.kind
        except StudyError:
            return None
        return model

    def with_arguments(self, arguments: Sequence[str]) -> Self:
        """Return the script with these arguments."""
        return type(self).read(self.text + ARGUMENTS + shlex.join(arguments))

    def __str__(self) -> str:
        return self.address.text

    @property
    def text(self) -> str:
        """The name as configs and records store it."""
        return self.address.text

    @property
    def label(self) -> str:
        """A short name for messages."""
        return self.address.label

    @property
    def name(self) -> str:
        """A name for a workload of this model."""
        return self.address.name

    @property
    def _maker(self) -> Maker:
        if self in _makers:
            return _makers[self]
        made = _maker_of(self.address)
        if not isinstance(made.adapter, ScriptAdapter) or made.adapter.found is not None:  # else not looked at yet
            _makers[self] = made
        return made

    @property
    def kind(self) -> type[Workload]:
        """The class of its workloads.

        Raises StudyError where a file with a workload class does not import or holds several.
        """
        return self._maker.kind

    @property
    def has_model(self) -> bool:
        """Return whether there is a model that can be trained, rather than a single operation."""
        return issubclass(self.kind, TrainingWorkload)

    @property
    def framework(self) -> str:
        """`keras`, `torch` or `jax`."""
        return self.kind.framework

    @property
    def dataset(self) -> str | None:
        """The name of the data set that it is trained on, if it is one of this package."""
        return self.kind.dataset

    @property
    def _facts(self) -> type[Workload] | Adapter:
        return self._maker.adapter or self._maker.kind

    @property
    def recipe(self) -> Recipe:
        """The training that its publication or file states."""
        return self._facts.recipe

    @property
    def unit(self) -> str:
        """The unit that throughput counts."""
        return self._facts.unit

    @property
    def generates(self) -> bool:
        """Return whether it may generate tokens, as far as that shows without being made."""
        return self._facts.generates

    @property
    def has_own_data(self) -> bool:
        """Return whether its data are not generated."""
        return self.dataset is not None or getattr(self._facts, "data_source", "") == "own"

    @property
    def declared(self) -> Declaration | None:
        """The constants of its file; None for a class of a workload, which says all itself."""
        adapter = self._maker.adapter
        return None if adapter is None else adapter.declared

    @property
    def found(self) -> Found | None:
        """The training of a script, once it was looked at."""
        adapter = self._maker.adapter
        return adapter.found if isinstance(adapter, ScriptAdapter) else None

    @property
    def usual_format(self) -> str:
        """The number format where a GPU has bfloat16 and nobody asks for another."""
        adapter = self._maker.adapter
        return "mixed_bfloat16" if adapter is None else adapter.usual_format

    @property
    def tunable(self) -> bool:
        """Return whether batches and checkpointing may be chosen so that it fits, unless its options say otherwise."""
        return self.address.kind == "hub"

    @property
    def may_read_options(self) -> bool:
        """Return whether it may have options: a model file says itself, when it runs, which it never read."""
        return self.address.kind == "file" or self.declared is not None

    @property
    def has_sequences(self) -> bool:
        """Return whether it may read a sequence length; of a person's own file, whether the file speaks of one."""
        if self.recipe.sequence_length is not None:
            return True
        if self.declared is not None:
            stated = [array for tree in (self.declared.input, self.declared.target) for array in leaves(tree)]
            if any(None in array.shape for array in stated):
                return True
        files = [path for path in self.address.files() if path.suffix == ".py"]
        return any("sequence_length" in path.read_text(encoding="utf-8", errors="replace") for path in files)

    def workload(self, options: Options) -> Workload:
        """Return its workload with these options."""
        return self._maker.make(options)

    def asked(self, request: Asked) -> Workload:
        """Return its workload as a run asks for it."""
        size, length = request.batch_size, request.sequence_length
        return self.workload(Options(size, request.precision, request.fraction, length, request.options))

    def hash(self, *entries: str) -> str:
        """Hash of the package's modules `entries` and of all code and files that the model consists of."""
        address = self.address
        if address.kind == "built-in":
            return code_hash(*entries, f"whichdevice.models.workloads.{address.text}")
        makers = {"library": ["whichdevice.models.libraries"], "hub": HUB_CODE}
        code = code_hash(*entries, *makers.get(address.kind, []), files=address.files())
        if address.kind == "file" and not address.arguments:
            return code
        named = f"{code} {address.library} {address.function} {address.arguments}"
        return hashlib.sha256(named.encode()).hexdigest()[: len(code)]


def _maker_of(address: Address) -> Maker:
    if address.kind == "saved":
        return _from(ModelFile, saved_adapter(address))
    if address.kind == "library":
        return _from(LibraryModel, library_adapter(address))
    if address.kind == "hub":
        if diffusion_name(address.function):
            return _from(DiffusionModel, diffusion_adapter(address))
        return _from(HubModel, hub_adapter(address))
    if trains(address):
        adapter: Adapter = script_adapter(address)
    else:
        assert address.path is not None
        load = partial(_import, address)
        if address.kind != "function" and not is_model_file(address.path):
            kind = _class_in(load(), address.text)
            return Maker(kind, None, kind)
        adapter = Adapter(address, read_declaration(address.path, address.function), load)
    scripts = {TORCH: ScriptFile} if isinstance(adapter, ScriptAdapter) else {}
    return _from((NATIVE | scripts).get(adapter.declared.framework, ModelFile), adapter)


def _from(kind: type[ModelFile], adapter: Adapter) -> Maker:
    return Maker(kind, adapter, partial(kind, adapter))


def _class_in(source: ModuleType, name: str) -> type[Workload]:
    """The one workload class that a file defines."""
    defined = [part for part in vars(source).values() if isinstance(part, type) and part.__module__ == source.__name__]
    classes = [part for part in defined if issubclass(part, Workload)]
    if len(classes) != 1:
        raise StudyError(f"workload {name}: holds {len(classes)} workload classes; it needs exactly one")
    return classes[0]


def _import(address: Address) -> ModuleType:
    """The module of a workload's file; raises StudyError in one line where it cannot be imported."""
    if address.kind == "built-in":
        return importlib.import_module(f"whichdevice.models.workloads.{address.text}")
    assert address.path is not None and address.root is not None
    _look_first_in(address.root)
    digest = hashlib.sha256(str(address.path.resolve()).encode()).hexdigest()[:8]
    name = address.module or f"workload_{address.path.stem}_{digest}"
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
    for other in {str(known) for known in _imported.values()} - {folder}:
        if other in sys.path and other != str(Path.cwd()):
            sys.path.remove(other)
    for name, origin in list(_imported.items()):
        if origin != root and name != "whichdevice":
            for module in [loaded for loaded in sys.modules if loaded.partition(".")[0] == name]:
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
