"""Packages in whose place something silent does: they make no step, or are not here.

Packages that log (Weights & Biases and others) do nothing, whether they are here or not. TensorBoard is silent where it
is not installed. DeepSpeed, Apex and Horovod train in one process: what they wrap is the model itself
(torch_libraries.py, which puts the same in place of an installed DeepSpeed).
"""

import ast
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from whichdevice.base.code_hash import imported_packages, parsed

SENDING = {"wandb", "comet_ml", "mlflow", "neptune", "clearml", "aim", "visdom", "swanlab", "trackio"}
LOGGING = {*SENDING, "tensorboard", "tensorboardX", "tensorboard_logger"}
WRAPPING = {"deepspeed", "apex", "horovod"}
TENSORBOARD = "torch.utils.tensorboard"  # needs another package
WITHOUT_TENSORFLOW = "tensorboard.compat.notf"  # where it is there TensorBoard leaves TensorFlow alone
VERSION = "99.0"


class Silent:
    """Stands for anything that a package has: what is called, entered or read of it is silent, too."""

    __version__ = VERSION

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *args: Any, **_: Any) -> Any:
        """Return itself; of a decorator the function."""
        return args[0] if len(args) == 1 and callable(args[0]) and not isinstance(args[0], Silent) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return (Silent,)

    def __getitem__(self, _: Any) -> "Silent":
        return self

    def __setitem__(self, _: Any, __: Any) -> None:
        pass

    def __bool__(self) -> bool:
        return True

    def __fspath__(self) -> str:
        """Return a new folder, for what the script writes beside its logs."""
        return _folder()


class Logged(Silent):
    """Stands for a package that logs and keeps the settings that it is given, which the script reads again."""

    def __init__(self) -> None:
        self.config = Settings()

    def init(self, *_: Any, config: Any = None, **__: Any) -> "Logged":
        """Begin a run, which is the package itself."""
        self.config.update(config)
        return self


class Settings(dict[str, Any]):
    """Settings by name and as attributes."""

    def update(self, given: Any = (), *_: Any, **named: Any) -> None:  # type: ignore[override]
        """Take settings of a mapping or of an object, as of parsed arguments."""
        super().update(getattr(given, "__dict__", given) or (), **named)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


@cache
def _folder() -> str:
    return tempfile.mkdtemp()


class FirstFinder(MetaPathFinder):
    """Finds modules before all others do, for a while."""

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *error: object) -> None:
        sys.meta_path.remove(self)


class StandIns(FirstFinder, Loader):
    """Finds those packages among what a script's files import or name that are not installed."""

    def __init__(self, files: Iterable[Path], made: Callable[[str], Mapping[str, Any]]) -> None:
        names = {name for file in files if file.suffix == ".py" for name in _imported(file)}
        known = names & (LOGGING | WRAPPING)
        self._absent = {name for name in known if name in SENDING or find_spec(name) is None}
        self._absent |= {TENSORBOARD} if find_spec("tensorboard") is None else set()
        self._absent |= {WITHOUT_TENSORFLOW} if "tensorflow" not in names else set()
        self._made = made  # what a package that wraps has, by its name

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for name, module in list(sys.modules.items()):
            if getattr(module, "__dict__", {}).get("__loader__") is self:
                del sys.modules[name]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a silent module."""
        known = {name, name.partition(".")[0]} & self._absent
        return ModuleSpec(name, self, is_package=True) if known else None

    def exec_module(self, module: ModuleType) -> None:
        """Fill a silent module."""
        silent = Logged()
        vars(module).update({"__version__": VERSION, "__getattr__": lambda name: getattr(silent, name)})
        if module.__name__.partition(".")[0] in WRAPPING:
            vars(module).update(self._made(module.__name__))


def _imported(file: Path) -> set[str]:
    """Return what a file imports, or names for a library to log with: `report_to="tensorboard"`."""
    nodes = list(ast.walk(parsed(file.read_bytes())))
    named = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return imported_packages(nodes) | (named & LOGGING)
