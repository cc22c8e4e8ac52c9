"""The packages that an answer needs, named with one command before anything runs."""

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from whichdevice.base.code_hash import parsed
from whichdevice.base.errors import StudyError
from whichdevice.models.address import Address
from whichdevice.models.diffusion import diffusion_name
from whichdevice.models.framework import JAX, KERAS, TORCH, framework_in
from whichdevice.models.script.stand_ins import LOGGING, WRAPPING

# As envs/jax.in.
FORECASTS = {KERAS: ("keras==3.15.*", "jax==0.10.*"), JAX: ("keras==3.15.*", "jax==0.10.*"), TORCH: ("torch",)}
PIP_NAMES = {
    "PIL": "pillow", "cv2": "opencv-python", "sklearn": "scikit-learn", "yaml": "pyyaml", "skimage": "scikit-image",
}  # fmt: skip
FOUR_BITS = {"bitsandbytes", "BitsAndBytesConfig", "load_in_4bit", "load_in_8bit"}
LOADED = re.compile(r"from_pretrained\(\s*['\"]([\w./-]+)['\"]")
HOW = "or install whichdevice where your packages are"


def require(address: Address) -> None:
    """Raise StudyError where the answer for this model needs packages that this environment lacks; it names all."""
    _refuse_bitsandbytes(address)
    framework = needed_framework(address)
    missing = [name for name in FORECASTS[framework] if not _installed(name.partition("=")[0])]
    if address.kind == "hub":
        libraries = ["transformers", *(["diffusers"] if diffusion_name(address.function) else [])]
        missing += [library for library in libraries if find_spec(library) is None]
    imports = [PIP_NAMES.get(name, name.replace("_", "-")) for name in _missing_imports(address)]
    missing += [name for name in imports if not any(known.startswith(name) for known in missing)]
    if missing:
        command = shlex.join([*_pip(), *missing])
        names = ", ".join(name.partition("=")[0] for name in missing)
        raise StudyError(f"{address.label} needs {names}, not installed in this environment: {command} ({HOW})")


def _refuse_bitsandbytes(address: Address) -> None:
    """Raise StudyError where the file needs bitsandbytes, whose layers and optimisers exist on a GPU alone."""
    if address.path is None or address.path.suffix != ".py":
        return
    if FOUR_BITS & {name for tree in _trees(address.path) for name in _names(tree)}:
        loaded = LOADED.search(address.path.read_text("utf-8", "replace"))
        raise StudyError(
            f"{address.label}: bitsandbytes needs CUDA, and no GPU is needed to answer: leave it out of the file and "
            'write METHOD = "qlora" for 4-bit weights, OPTIMIZER = "AdamW8bit" for its optimiser; or ask '
            f"hf:{loaded[1] if loaded else 'NAME'} --option method=qlora"
        )


def _trees(path: Path) -> list[ast.Module]:
    """Return the tree of a file; none where it cannot be read, for which what comes after gives the reason."""
    try:
        return [parsed(path.read_bytes())]
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []


def _names(tree: ast.AST) -> Iterator[str]:
    """The packages that a file imports, and words that it names and passes; an argument that is False is not passed."""
    for node in _always(tree):
        arguments: list[tuple[str | None, ast.expr]] = []
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module.partition(".")[0]
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.keyword(arg=name, value=value):
                arguments = [(name, value)]
            case ast.Dict(keys=keys, values=values):
                arguments = [(getattr(key, "value", None), value) for key, value in zip(keys, values, strict=True)]
        yield from (str(name) for name, value in arguments if getattr(value, "value", True))


def _always(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a file without what is under a condition: it may be an option that is off."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.If) or "__name__" in ast.unparse(node.test):
            yield node
            yield from _always(node)


def needed_framework(address: Address) -> str:
    """`keras`, `torch` or `jax`, by the address and the file's imports alone."""
    if address.kind == "hub":
        return TORCH
    if address.kind in ("file", "function") and address.path is not None:
        try:
            return framework_in([address.path, *address.files()])
        except (OSError, SyntaxError, ValueError, RecursionError):  # what comes after gives the reason
            return KERAS
    return KERAS


def _missing_imports(address: Address) -> Iterator[str]:
    """Packages that the file imports without a condition and that are nowhere, but for those with stand-ins."""
    if address.kind != "file" or address.path is None or address.root is None:
        return
    body = [node for tree in _trees(address.path) for node in tree.body]
    names = [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in body if isinstance(node, ast.ImportFrom) and not node.level]
    for name in dict.fromkeys(module.partition(".")[0] for module in names):
        is_local = any(
            (folder / name).is_dir() or (folder / f"{name}.py").is_file() for folder in (address.root, Path.cwd())
        )
        if name and not is_local and name not in LOGGING | WRAPPING and find_spec(name) is None:
            yield name


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _pip() -> list[str]:
    """The command that installs into this environment, by pip or, where it has none, by uv."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    return ["uv", "pip", "install", "--python", sys.executable]
