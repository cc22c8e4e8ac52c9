"""What a model file states in constants, read from its syntax tree: planning a study runs nothing of the file.

A mistake in the file is no error here: the study goes on, and the runs of this file fail with it as their reason.
"""

import ast
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from whichdevice.python_source import parsed
from whichdevice.workloads.constants import FaultError, constants
from whichdevice.workloads.framework import BACKENDS, KERAS, NAMES, framework_of

FUNCTIONS = ("model", "data", "loss", "optimizer", "metric")


@dataclass(frozen=True)
class Array:
    """Shape and type of one example; a None in the shape is the sequence length, `below` the bound of whole numbers."""

    shape: tuple[int | None, ...]
    dtype: str = "float32"
    below: int | None = None


@dataclass(frozen=True)
class Declaration:
    """The constants of a model file, in capitals there; `fault` says in one line what is wrong with them."""

    input: Any = None  # an Array, or a dict or tuple of them
    target: Any = None
    loss: str | None = None
    optimizer: str | None = None
    metric: str | None = None
    higher_is_better: bool | None = None
    goal: float | None = None
    batch_size: int = 32
    epochs: int = 1
    steps_per_epoch: int | None = None
    sequence_length: int | None = None
    examples: int | None = None
    unit: str = "example"
    source: str | None = None
    functions: frozenset[str] = field(default_factory=frozenset)
    fault: str | None = None
    hints: tuple[str, ...] = ()
    framework: str = KERAS


CONSTANTS = {each.name.upper(): each.name for each in fields(Declaration)[:14]}
TYPES: dict[str, tuple[type, ...]] = {
    "loss": (str,),
    "optimizer": (str,),
    "metric": (str,),
    "higher_is_better": (bool,),
    "goal": (int, float),
    "unit": (str,),
    "source": (str,),
}
DTYPES = ("float32", "uint8", "int32")


def is_model_file(path: Path) -> bool:
    """Whether a file is of the simple form: it has a function `model`, or no class made from one of the project's."""
    tree = _parsed(path)
    if isinstance(tree, str) or any("model" in _defined(node) for node in tree.body):
        return True
    ours = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("whichdevice.")
        for alias in node.names
    }
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return not any(isinstance(base, ast.Name) and base.id in ours for node in classes for base in node.bases)


def read_declaration(path: Path) -> Declaration:
    """The constants of a model file and which functions it defines; never raises for what is in the file."""
    tree = _parsed(path)
    if isinstance(tree, str):
        return Declaration(fault=tree)
    functions = frozenset(name for node in tree.body for name in _defined(node) if name in FUNCTIONS)
    faults: list[str] = []
    given: dict[str, Any] = {}
    for name, value, line in constants(tree):
        if name in CONSTANTS and value is not None:
            try:
                given[CONSTANTS[name]] = _checked(CONSTANTS[name], value)
            except FaultError as error:
                faults.append(f"{name} {error} (line {line})")
    names = [name for name, _, _ in constants(tree)]
    framework = _framework(tree, faults)
    if "model" not in functions:
        faults.insert(0, f"it defines no function model(options) that returns {NAMES[framework]}")
    fault = faults[0] if faults else None
    return Declaration(functions=functions, fault=fault, hints=_hints(names), framework=framework, **given)


def _framework(tree: ast.Module, faults: list[str]) -> str:
    """What FRAMEWORK says, else what the imports show."""
    for name, value, line in constants(tree):
        if name == "FRAMEWORK":
            if value in BACKENDS:
                return str(value)
            faults.append(f"FRAMEWORK must be one of {', '.join(BACKENDS)} (line {line})")
    return framework_of(tree)


def _parsed(path: Path) -> ast.Module | str:
    try:
        return parsed(path.read_bytes())
    except SyntaxError as error:
        return f"it is no Python: {error.msg} (line {error.lineno})"
    except ValueError as error:
        return f"it is no Python: {error}"
    except RecursionError:
        return "it is no Python: nested too deeply"


def _defined(node: ast.stmt) -> list[str]:
    """Names of functions that a statement defines: by `def`, by import or as another name of a function."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _checked(name: str, value: Any) -> Any:
    if isinstance(value, FaultError):
        raise value
    if name in ("input", "target"):
        return _structure(value)
    expected = TYPES.get(name)
    if expected is None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise FaultError(f"is {value!r}; it must be a whole number above 0")
    elif not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        raise FaultError(f"is {value!r}; it must be {' or '.join(each.__name__ for each in expected)}")
    return value


def _structure(value: Any) -> Any:
    """An array, or a dict or tuple of them."""
    nested = isinstance(value, dict) and value and all(isinstance(each, dict | tuple) for each in value.values())
    if nested and "shape" not in value:
        return {name: _structure(each) for name, each in value.items()}
    if isinstance(value, tuple) and value and all(isinstance(each, dict) for each in value):
        return tuple(map(_structure, value))
    return _array(value)


def _array(value: Any) -> Array:
    if not isinstance(value, dict) or "shape" not in value or not set(value) <= {"shape", "dtype", "below"}:
        raise FaultError('must be like {"shape": (28, 28, 1), "dtype": "uint8"}; whole numbers also take "below"')
    shape, dtype, below = value["shape"], value.get("dtype", "float32"), value.get("below")
    if not isinstance(shape, tuple) or not all(size is None or (type(size) is int and size > 0) for size in shape):
        raise FaultError(f"has shape {shape!r}; it must be a tuple of sizes of one example, without the batch")
    if dtype not in DTYPES:
        raise FaultError(f"has dtype {dtype!r}; it must be one of {', '.join(DTYPES)}")
    if below is not None and (type(below) is not int or below < 1):
        raise FaultError(f'has "below" {below!r}; it must be a whole number above 0')
    if dtype == "int32" and below is None:
        raise FaultError('holds whole numbers; add "below", e.g. "below": 10 for the classes 0 to 9')
    return Array(shape, dtype, below)


def _hints(names: list[str]) -> tuple[str, ...]:
    """Constants that look like misspelt ones."""
    hints = []
    for name in names:
        near = get_close_matches(name, CONSTANTS, 1, 0.8) if name not in CONSTANTS else []
        if near and near[0] not in names:
            hints.append(f"{name} is not used; did you mean {near[0]}?")
    return tuple(hints)
