"""The address of a workload, read from its name alone: nothing is imported and nothing runs.

    resnet50                            a built-in workload
    models/mine.py                      a Python file (docs/reference/model-file.md); it may import its neighbours
    mypackage.nets:small_unet           a function of a package in the working folder, or of an installed one
    trained/mine.keras                  a saved Keras model
    keras.applications:MobileNetV3Small a model of a library, with random weights
    hf:meta-llama/Llama-3.1-8B          a model of Hugging Face, with random weights; or its page's address

A new kind is a branch of `read_address` and one of `whichdevice.models.loading`.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from whichdevice.base.code_hash import imported_names, parsed
from whichdevice.base.errors import StudyError, hint, nearest
from whichdevice.base.files import csv_rows
from whichdevice.base.plugins import matching
from whichdevice.models.diffusion import SIZES, by_plain_name, diffusion_name

Kind = Literal["built-in", "file", "function", "saved", "library", "hub"]
BUILT_IN = Path(__file__).parent / "workloads"
SUFFIXES = (".py", ".keras")  # of files that are a workload
LIBRARIES = ("keras.applications",)
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
SKIPPED = {"results", "node_modules", "__pycache__", "site-packages"}  # folders that are no part of a package
ARGUMENTS = " -- "  # between a script and its arguments
ADDRESSES = (
    "a built-in name, path/to/file.py, package.module:function, path/to/model.keras, keras.applications:NAME, hf:NAME "
    "or a folder with a config.json of Hugging Face"
)
HUB_TABLE = Path(__file__).with_name("llm_models.csv")  # sizes of models of Hugging Face
HUB_PAGE = re.compile(r"(?:https?://)?(?:www\.)?huggingface\.co/([\w.-]+/[\w.-]+)(?:[/?#].*)?")
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
# Words in the name of a model that was trained further or less far, and one that newer names leave out.
SAME_SIZES = re.compile(
    r"-(instruct|chat(-v[\d.]+)?|thinking|it|pt|hf|coder|math|base(?=-\d{4})|intermediate-step-.+)(?=-|$)"
    r"|\bmeta-(?=llama-\d)"
)
DATE = re.compile(r"-\d{4}$")  # of a release


@dataclass(frozen=True)
class Address:
    """A workload's name as a config or a command has it, and what it stands for."""

    text: str
    kind: Kind
    path: Path | None = None  # the Python file, or the saved model
    module: str | None = None  # the file's dotted name where it is a part of a package
    function: str = "model"  # of the file, that gives the model; the name in a library
    root: Path | None = None  # the folder from which the file's imports are found
    library: str | None = None
    arguments: tuple[str, ...] = ()  # of a script, what stands behind ` -- `

    @property
    def label(self) -> str:
        """A short name for messages: the file's name, or the address."""
        return self.path.name if self.path is not None and self.kind in ("file", "saved") else self.text

    @property
    def name(self) -> str:
        """A name for a workload of this address."""
        if self.kind == "hub":
            return re.sub(r"[^A-Za-z0-9_.]+", "-", Path(self.function).name).strip("-.")
        return self.path.stem if self.path is not None and self.kind != "function" else self.function

    @property
    def is_own(self) -> bool:
        """Return whether it is somebody's own code or file, rather than a part of this package or of a library."""
        return self.kind in ("file", "function", "saved")

    def files(self) -> list[Path]:
        """Every file of one's own that the workload consists of: edits of any of them measure again."""
        if self.kind == "hub" and self.path is not None:
            return [self.path]
        if not self.is_own or self.path is None:
            return []
        return [self.path] if self.root is None else _with_imports(self.path, self.root, self.module)


def read_address(text: str) -> Address:
    """Return what a workload's name stands for; raises StudyError where there is no such thing."""
    text = full_name(text)
    library, colon, name = text.partition(":")
    if library == "hf" and name:
        table = SIZES if diffusion_name(name) else HUB_TABLE
        return Address(text, "hub", config_file(name) or table, function=name)
    if colon and library in LIBRARIES:
        if not name.isidentifier():
            raise StudyError(f"workload {text}: needs a name after the colon, e.g. keras.applications:MobileNetV3Small")
        return Address(text, "library", function=name, library=library)
    if FUNCTION.fullmatch(text):
        return _function(text, library, name)
    if is_path(text):
        return file_address(text)
    if text not in built_in_names():
        file = f"the file {text}.py" if Path(f"{text}.py").is_file() else None
        near = hint(file or nearest(text, built_in_names()) or near_hub_name(text))
        near = near or f"; there are {', '.join(built_in_names())}"
        raise StudyError(f"no built-in workload {text!r}{near} (or give {ADDRESSES})")
    return Address(text, "built-in", BUILT_IN / f"{text}.py", f"whichdevice.models.workloads.{text}")


def full_name(text: str) -> str:
    """Return the name with `hf:` where it is a page's address, a folder with config.json, ORG/NAME or NAME."""
    if config_file(text) and text not in built_in_names():
        return f"hf:{text.removesuffix('/config.json')}"
    if page := HUB_PAGE.fullmatch(text):
        return f"hf:{page[1]}"
    if HUB_NAME.fullmatch(text) and not text.endswith(SUFFIXES) and not Path(text).parent.exists():
        return f"hf:{text}"
    is_hub = "/" not in text and ":" not in text and text not in built_in_names() and known_on_hub(text)
    return f"hf:{text}" if is_hub else text


def known_on_hub(name: str) -> str | None:
    """Return the name of a model whose sizes are known here."""
    return hub_model(name) or diffusion_name(name)


def hub_model(name: str) -> str | None:
    """Return the name in the table that has this model's sizes: its own, or its base's."""
    wanted = name.casefold()
    names = _hub_names()
    plain = SAME_SIZES.sub("", wanted)
    return names.get(wanted) or names.get(plain) or names.get(DATE.sub("", plain))


def near_hub_name(name: str) -> str | None:
    """Return the address of the model in the table whose name is nearest, if one is near."""
    near = nearest(name.casefold(), _hub_names(), 0.75)
    return f"hf:{_hub_names()[near]}" if near else None


@cache
def _hub_names() -> dict[str, str]:
    """The table's names by themselves, without the organisation, and without words that leave the sizes as they are."""
    names = by_plain_name(line["model"] for line in csv_rows(HUB_TABLE))
    return {SAME_SIZES.sub("", name): model for name, model in reversed(names.items())} | names


def config_file(name: str) -> Path | None:
    """The config.json that a name of a model of Hugging Face means: a folder with it, or the file."""
    path = Path(name)
    return next((file for file in (path, path / "config.json") if file.suffix == ".json" and file.is_file()), None)


def is_path(text: str) -> bool:
    """Return whether a name is a path to a file rather than a built-in name or an address with a colon."""
    text = text.partition(ARGUMENTS)[0]
    return text.endswith(SUFFIXES) or (not text.startswith("hf:") and ("/" in text or "\\" in text))


def built_in_names() -> list[str]:
    """The built-in workloads, sorted: files with a function `model`, or with a class that states its `recipe`."""
    return _built_in(BUILT_IN)


@cache
def _built_in(folder: Path) -> list[str]:
    return matching(folder, r"^def model\(|^    recipe =")


def file_address(text: str) -> Address:
    """Return the address of a file, perhaps with arguments; raises StudyError where there is no such file."""
    name, _, given = text.partition(ARGUMENTS)
    path = Path(name)
    if path.is_dir():
        raise StudyError(f"workload file {path}: a folder; name a file in it, e.g. {path / 'my_model.py'}")
    if not path.is_file():
        raise StudyError(f"workload file {path}: not found{hint(_nearest_file(path))}")
    if path.suffix == ".keras":
        address = Address(text, "saved", path)
    elif path.suffix == ".py":
        names, folder = [path.stem], path.absolute().parent
        while (folder / "__init__.py").is_file():  # a file of a package is imported as a part of it
            names, folder = [folder.name, *names], folder.parent
        module = ".".join(names) if len(names) > 1 and all(name.isidentifier() for name in names) else None
        root = folder if module else path.absolute().parent
        address = Address(text, "file", path, module, root=root, arguments=tuple(shlex.split(given)))
    else:
        notebook = path.suffix == ".ipynb"
        fix = f"jupyter nbconvert --to script {path}" if notebook else "its name must end in .py (or .keras)"
        raise StudyError(f"workload file {path}: not a Python file; {fix}")
    _refuse_results(address)
    return address


def _nearest_file(path: Path) -> Path | None:
    """The file whose name begins as this one's or is most like it: in its folder, else in this one or two below."""
    beside = [file for file in path.parent.glob("*") if file.suffix in SUFFIXES]
    below = [file for pattern in ("*", "*/*", "*/*/*") for file in Path().glob(pattern) if file.suffix in SUFFIXES]
    for files in (beside, below):
        names = {file.stem: file for file in reversed(files)}
        begun = next((name for name in sorted(names) if name.startswith(path.stem)), None)
        if near := begun or nearest(path.stem, names):
            return names[near]
    return None


def _function(text: str, module: str, function: str) -> Address:
    first, *rest = module.split(".")
    near = nearest(module, LIBRARIES)
    meant = hint(near and f"{near}:{function}")
    for root in _roots(first):
        if (path := _module_file(root, [first, *rest])) is not None:
            address = Address(text, "function", path, module, function, root)
            _refuse_results(address)
            return address
        raise StudyError(f"workload {text}: the package {first} has no module {module}{meant}")
    raise StudyError(f"workload {text}: no package {first} in this folder, nor installed{meant}")


def _roots(package: str) -> Iterator[Path]:
    """Folders that hold a package or module of that name: the working folder, else where it is installed."""
    here = Path.cwd()
    if (here / package).is_dir() or (here / f"{package}.py").is_file():
        yield here
        return
    try:
        spec = find_spec(package)  # of a name without a dot: nothing is imported
    except (ImportError, ValueError):
        return
    if spec is not None and spec.submodule_search_locations:
        yield Path(next(iter(spec.submodule_search_locations))).parent
    elif spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
        yield Path(spec.origin).parent


def _refuse_results(address: Address) -> None:
    """Raise StudyError of a file below results/, where records and files of other people are."""
    assert address.path is not None
    if address.path.resolve().is_relative_to(Path("results").resolve()):
        raise StudyError(
            f"workload file {address.path}: is below results/, where files of other people may be, and is never run; "
            "look at it, and copy it elsewhere"
        )


def _module_file(root: Path, names: list[str]) -> Path | None:
    base = root.joinpath(*names)
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _with_imports(path: Path, root: Path, module: str | None) -> list[Path]:
    """A file, the whole package that it is a part of, and all modules below `root` that these import."""
    start = module or path.stem
    modules = {path.absolute(): start}
    top = root / start.partition(".")[0]
    if module and top.is_dir():
        for file in _package_files(top):
            parts = file.relative_to(root).with_suffix("").parts
            modules[file] = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    neighbours = "site-packages" not in root.parts  # an installed package counts as a whole
    waiting = list(modules.items()) if neighbours else []
    while waiting:
        file, name = waiting.pop()
        for imported in _imports(file, name):
            names = imported.split(".")
            for length in range(1, len(names) + 1):
                neighbour = _module_file(root, names[:length])
                if neighbour is not None and neighbour.absolute() not in modules:
                    modules[neighbour.absolute()] = ".".join(names[:length])
                    waiting.append((neighbour.absolute(), ".".join(names[:length])))
    return sorted(modules, key=lambda file: file != path.absolute())


def _package_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in SKIPPED and not path.name.startswith("."):
            yield from _package_files(path)
        elif path.suffix == ".py":
            yield path.absolute()


def _imports(path: Path, module: str) -> Iterator[str]:
    """Absolute names of all that a file imports, anywhere in it; a name may be no module."""
    try:
        tree = parsed(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):  # the run gives the reason
        return
    yield from imported_names(tree, module if path.name == "__init__.py" else module.rpartition(".")[0])
