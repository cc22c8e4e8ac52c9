"""The packages that an answer needs, named with one command before anything runs; and an answer by another Python.

An isolated installation (`uv tool`, `uvx`, pipx) has neither the user's PyTorch nor their own packages. `--python PATH`
runs the same call with the interpreter of their environment: its packages come first, what whichdevice needs besides
comes from this installation where both Pythons are of one version.
"""

import ast
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from whichdevice import SPARE
from whichdevice.base.code_hash import parsed
from whichdevice.base.errors import StudyError
from whichdevice.base.files import HERE, INSTALLED, VARIABLE
from whichdevice.models.address import Address
from whichdevice.models.diffusion import diffusion_name
from whichdevice.models.framework import JAX, KERAS, TORCH, framework_in
from whichdevice.models.script.stand_ins import LOGGING, WRAPPING

# As envs/jax.in and envs/jax-tpu.in.
FORECASTS = {KERAS: ("keras==3.15.*", "jax==0.10.*"), JAX: ("keras==3.15.*", "jax==0.10.*"), TORCH: ("torch",)}
GPU = ("jax-cuda12-pjrt==0.10.*", "nvidia-cuda-nvcc-cu12==12.9.*")
TPU = "jax[tpu]==0.10.*"
ALWAYS = ("numpy", "pandas", "scipy", "pydantic", "psutil", "yaml", "jinja2", "filelock")  # imports of every call
PIP_NAMES = {
    "PIL": "pillow",
    "cv2": "opencv-python",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "skimage": "scikit-image",
}
FOUR_BITS = {"bitsandbytes", "BitsAndBytesConfig", "load_in_4bit", "load_in_8bit"}
LOADED = re.compile(r"from_pretrained\(\s*['\"]([\w./-]+)['\"]")
HOW = "whichdevice ask --python PATH uses the packages of another environment"


def require(address: Address, kinds: Iterable[str] = ("gpu",), exact: bool = False) -> None:
    """Raise StudyError where the answer for this model needs packages that this environment lacks; it names them all.

    `kinds` are those of the devices for which it has forecasts, by the sheet. A TPU's own compiler is needed where they
    are `exact`, else a GPU's.
    """
    _refuse_bitsandbytes(address)
    framework, missing = needed_framework(address), []
    compiled_kinds = {"tpu"} if exact else set()  # kinds that their own compiler makes programs for
    compilers = []
    if framework != TORCH:
        compilers = [*(GPU if set(kinds) - compiled_kinds else ()), *([TPU] if compiled_kinds & set(kinds) else [])]
    for requirement in (*FORECASTS[framework], *compilers):
        if not _installed("libtpu" if requirement == TPU else requirement.partition("=")[0]) and _exists(requirement):
            missing.append(requirement)
    if address.kind == "hub":
        libraries = ["transformers", *(["diffusers"] if diffusion_name(address.function) else [])]
        missing += [library for library in libraries if find_spec(library) is None]
    missing += [
        name for name in map(_pip_name, _missing_imports(address)) if not any(m.startswith(name) for m in missing)
    ]
    if missing:
        command = shlex.join([*_pip(), *missing])
        names = ", ".join(name.partition("=")[0].partition("[")[0] for name in missing)
        raise StudyError(f"{address.label} needs {names}, not installed in this environment: {command} ({HOW})")


def _refuse_bitsandbytes(address: Address) -> None:
    """Raise StudyError where the file needs bitsandbytes, whose layers and optimisers exist on a GPU alone."""
    if address.path is None or address.path.suffix != ".py":
        return
    try:
        text = address.path.read_bytes()
        names = set(_names(parsed(text)))
    except (OSError, SyntaxError, ValueError, RecursionError):  # what comes after gives the reason
        return
    if names & FOUR_BITS:
        loaded = LOADED.search(text.decode("utf-8", "replace"))
        raise StudyError(
            f"{address.label}: bitsandbytes needs CUDA, and no GPU is needed to answer: leave it out of the file and "
            'write METHOD = "qlora" for 4-bit weights, OPTIMIZER = "AdamW8bit" for its optimiser; or ask '
            f"hf:{loaded[1] if loaded else 'NAME'} --option method=qlora"
        )


def _names(tree: ast.AST) -> Iterator[str]:
    """The words that a file imports, names and passes by name; an argument that is False is not passed."""
    for node in ast.walk(tree):
        given: list[tuple[str | None, ast.expr]] = []
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
                yield (getattr(node, "module", None) or "").partition(".")[0]
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.keyword(arg=name, value=value):
                given = [(name, value)]
            case ast.Dict(keys=keys, values=values):
                given = [(getattr(key, "value", None), value) for key, value in zip(keys, values, strict=True)]
        yield from (str(name) for name, value in given if getattr(value, "value", True))


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
    try:
        body = parsed(address.path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    names = [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in body if isinstance(node, ast.ImportFrom) and not node.level]
    for name in dict.fromkeys(module.partition(".")[0] for module in names):
        is_local = any(
            (folder / name).is_dir() or (folder / f"{name}.py").is_file() for folder in (address.root, Path.cwd())
        )
        if name and not is_local and name not in LOGGING | WRAPPING and find_spec(name) is None:
            yield name


def _pip_name(package: str) -> str:
    return PIP_NAMES.get(package, package.replace("_", "-"))


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _exists(requirement: str) -> bool:
    """Whether a package exists for this system: the compilers do for Linux on x86-64 alone."""
    everywhere = requirement.startswith(("keras", "torch", "jax=="))
    return everywhere or (sys.platform == "linux" and platform.machine() == "x86_64")


def _pip() -> list[str]:
    """The command that installs into this environment, by pip or, where it has none, by uv."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    return ["uv", "pip", "install", "--python", sys.executable]


def run_in(python: Path, arguments: Sequence[str]) -> int:
    """The exit status of `whichdevice ARGUMENTS` by that interpreter.

    Raises StudyError where it does not run, or lacks what whichdevice needs and cannot take from here.
    """
    number, lacks = _looked_at(python)
    same = number == sys.version_info[:2]
    if not same and lacks:
        names = shlex.join(map(_pip_name, lacks))
        raise StudyError(f"--python {python}: that environment lacks {names}: {python} -m pip install {names}")
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder)  # holds this package and none of its neighbours
        if INSTALLED.is_dir():
            (alone / HERE.name).symlink_to(HERE)
        else:
            alone = HERE.parent
        variables = {VARIABLE: os.pathsep.join(filter(None, [str(alone), os.environ.get(VARIABLE)]))}
        if same:
            variables[SPARE] = sysconfig.get_paths()["purelib"]
        command = [str(python), "-m", "whichdevice", *arguments]
        return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode


def _looked_at(python: Path) -> tuple[tuple[int, ...], list[str]]:
    """Version of an interpreter, and which of ALWAYS it lacks; raises StudyError where it cannot run this package."""
    code = "import json, sys, importlib.util as u; "
    code += "print(json.dumps([sys.version_info[:2], [n for n in sys.argv[1:] if u.find_spec(n) is None]]))"
    try:
        done = subprocess.run([python, "-c", code, *ALWAYS], capture_output=True, text=True, timeout=60, check=True)
        number, lacks = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise StudyError(f"--python {python}: this is no Python that runs: {type(error).__name__}") from error
    if not (3, 11) <= tuple(number) <= (3, 13):
        raise StudyError(f"--python {python}: it is Python {number[0]}.{number[1]}; 3.11 to 3.13 are needed")
    return tuple(number), lacks
