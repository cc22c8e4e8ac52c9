"""The constants of a model file, read from its syntax tree: planning a study runs nothing of the file.

A mistake in the file is no error here: the study goes on, and the runs of this file fail with it as their reason.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from whichdevice.base.code_hash import parsed
from whichdevice.base.errors import hint, nearest
from whichdevice.models.framework import BACKENDS, FRAMEWORKS, KERAS, framework_of
from whichdevice.models.shapes import Array, Tree

GENERATING = ("empty_cache", "call_with_cache")  # of a Keras file whose model generates tokens
FUNCTIONS = ("model", "data", "loss", "optimizer", "metric", *GENERATING)
ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.USub: operator.neg,
}  # fmt: skip
LARGEST = 64  # bits of a whole number


@dataclass(frozen=True)
class Declaration:
    """The constants of a model file, in capitals there; `fault` says in one line what is wrong with them."""

    input: Tree = None  # of Array, as are targets
    target: Tree = None
    loss: Tree = None  # a Keras name, or one for each output
    loss_weights: Tree = None
    optimizer: str | None = None
    metric: Tree = None
    higher_is_better: bool | None = None
    batch_size: int = 32
    epochs: int = 1
    steps_per_epoch: int | None = None
    sequence_length: int | None = None
    examples: int | None = None
    dataset_examples: int | None = None  # of the real data, where the file generates fewer
    unit: str = "example"
    source: str | None = None
    functions: frozenset[str] = field(default_factory=frozenset)
    by_compile: bool = False  # whether the model may come compiled instead
    fault: str | None = None
    framework: str = KERAS
    tuning: Mapping[str, Any] = field(default_factory=dict)  # constants of TUNING, by names in small letters


TUNING = (  # how a PyTorch model is trained: models/tuning.py
    "METHOD", "LORA_RANK", "LORA_LAYERS", "LORA_DROPOUT", "GRADIENT_CHECKPOINTING", "GRADIENT_ACCUMULATION",
    "PRECISION",
)  # fmt: skip
FILE_CONSTANTS = {constant.name.upper(): constant.name for constant in fields(Declaration)[:15]}
BY_OUTPUT = ("loss", "metric", "loss_weights")  # may be one for each output
TYPES: dict[str, tuple[type, ...]] = {  # of constants that are no whole number above 0
    **dict.fromkeys(("loss", "metric", "optimizer", "unit", "source"), (str,)),
    "loss_weights": (int, float),
    "higher_is_better": (bool,),
}
DTYPES = ("float32", "uint8", "int32")


def own_format(tuning: Mapping[str, Any]) -> str | None:
    """The number format in place of mixed precision: as a file states it; frozen weights are in 16 bits."""
    return tuning.get("precision") or (None if tuning.get("method", "full") == "full" else "bfloat16")


def is_model_file(path: Path) -> bool:
    """Return whether a file has the simple form: a function `model`, or no class made from one of the project's."""
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


def read_declaration(path: Path, function: str = "model") -> Declaration:
    """The constants of a model file and which functions it defines; never raises for what is in the file.

    `function` is the one that gives the model.
    """
    tree = _parsed(path)
    if isinstance(tree, str):
        return Declaration(fault=tree)
    wanted = {**{name: name for name in FUNCTIONS if name != "model"}, function: "model"}
    functions = frozenset(wanted[name] for node in tree.body for name in _defined(node) if name in wanted)
    faults: list[str] = []
    given: dict[str, Any] = {}
    for name, value, line in constants(tree):
        if name in FILE_CONSTANTS and value is not None:
            try:
                given[FILE_CONSTANTS[name]] = _checked(FILE_CONSTANTS[name], value)
            except FaultError as error:
                faults.append(f"{name} {error} (line {line})")
    tuning = {name.lower(): value for name, value, _ in constants(tree) if name in TUNING}
    framework = _framework(tree, faults)
    if "model" not in functions:
        near = hint(nearest(function, [name for node in tree.body for name in _defined(node)]))
        faults.insert(0, f"it defines no function {function}(options) that returns {FRAMEWORKS[framework]}{near}")
    return Declaration(
        functions=functions,
        by_compile=function != "model" or any(_compiles_or_loads(node) for node in ast.walk(tree)),
        fault="; ".join(faults) or None,
        framework=framework,
        tuning=tuning,
        **given,
    )


def _framework(tree: ast.Module, faults: list[str]) -> str:
    """Return what FRAMEWORK says, else what the imports show."""
    for name, value, line in constants(tree):
        if name == "FRAMEWORK":
            if isinstance(value, str) and value in BACKENDS:
                return value
            faults.append(f"FRAMEWORK must be one of {', '.join(BACKENDS)} (line {line})")
    return framework_of(tree)


def _compiles_or_loads(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("compile", "load_model")


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
        return _arrays(value)
    if name in BY_OUTPUT and isinstance(value, dict | tuple):
        parts = [part for part in (value.values() if isinstance(value, dict) else value) if part is not None]
    else:
        parts = [value]
    kinds = TYPES.get(name)
    if all(type(part) in kinds if kinds else type(part) is int and part > 0 for part in parts):
        return value
    words = " or ".join(kind.__name__ for kind in kinds) if kinds else "a whole number above 0"
    several = ", or a tuple or dict of them by output" if name in BY_OUTPUT else ""
    raise FaultError(f"is {value!r}; it must be {words}{several}")


def _arrays(value: Any) -> Tree:
    """One array's description, or a tuple or dict of such."""
    if isinstance(value, tuple) and value and all(isinstance(part, dict | tuple) for part in value):
        return tuple(map(_arrays, value))
    by_name = isinstance(value, dict) and value and "shape" not in value
    if by_name and all(isinstance(part, dict | tuple) for part in value.values()):
        return {key: _arrays(part) for key, part in value.items()}
    return _array(value)


def _array(value: Any) -> Array:
    if not isinstance(value, dict) or "shape" not in value or not set(value) <= {"shape", "dtype", "below"}:
        raise FaultError('must be like {"shape": (28, 28, 1), "dtype": "uint8"}; whole numbers also take "below"')
    shape, dtype, below = value["shape"], value.get("dtype", "float32"), value.get("below")
    if not isinstance(shape, tuple) or not all(size is None or (type(size) is int and size > 0) for size in shape):
        raise FaultError(f"has shape {shape!r}; it must be a tuple of sizes of one example, without the batch")
    dtype = {"int64": "int32", "float64": "float32"}.get(dtype, dtype)  # as data() of such arrays is taken
    if dtype not in DTYPES:
        raise FaultError(f"has dtype {dtype!r}; it must be one of {', '.join(DTYPES)}")
    if below is not None and (type(below) is not int or below < 1):
        raise FaultError(f'has "below" {below!r}; it must be a whole number above 0')
    if dtype == "int32" and below is None:
        raise FaultError('holds whole numbers; add "below", e.g. "below": 10 for the classes 0 to 9')
    return Array(shape, dtype, below)


class FaultError(ValueError):
    """A constant is wrong; the words say why."""


def constants(tree: ast.Module) -> list[tuple[str, Any, int]]:
    """(name, value, line) of each assignment to a name in capitals; the value is a FaultError where it is not plain."""
    known: dict[str, Any] = {}
    assigned = []
    for node in tree.body:
        for target, written in _assigned(node):
            try:
                known[target] = _value(written, known)
            except FaultError as error:
                known[target] = error
            if target.isupper():
                assigned.append((target, known[target], node.lineno))
    return assigned


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Names that a statement gives a value: NAME = ..., NAME: type = ..., A = B = ..., A, B = ..., ..."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, ast.copy_location(ast.BinOp(ast.Name(node.target.id), node.op, node.value), node)
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple | ast.List):
            written = node.value.elts if isinstance(node.value, ast.Tuple | ast.List) else []
            for name, value in zip(target.elts, written, strict=False):
                if isinstance(name, ast.Name):
                    yield name.id, value


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """A literal, an earlier constant, or arithmetic on them."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(element, known) for element in node.elts)
    if isinstance(node, ast.Dict):
        keys = [_value(key, known) for key in node.keys if key is not None]
        if not all(isinstance(key, str) for key in keys) or len(keys) < len(node.keys):
            raise FaultError("must have names in quotes as its keys")
        return {key: _value(value, known) for key, value in zip(keys, node.values, strict=True)}
    if isinstance(node, ast.Name) and node.id in known:
        if isinstance(value := known[node.id], FaultError):
            raise value
        return value
    if isinstance(node, ast.UnaryOp | ast.BinOp) and type(node.op) in ARITHMETIC:
        sides = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
        numbers = [_value(side, known) for side in sides]
        if all(type(number) in (int, float) for number in numbers):
            try:
                result = ARITHMETIC[type(node.op)](*numbers)
            except ArithmeticError as error:
                raise FaultError(f"cannot be worked out: {error}") from error
            if isinstance(result, int) and result.bit_length() > LARGEST:
                raise FaultError("is far too large")
            return result
    raise FaultError("must be a plain value: it is read without running the file")
