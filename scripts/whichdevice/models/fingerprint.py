"""A text of what an object does, for a key: whatever changes a training step changes it, the values of weights do not.

A function is described by its source, the values that it holds and the globals that it uses; an object by its class
and attributes; floating-point arrays by shape and type, all others by their values too.
"""

import functools
import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from whichdevice.models.model_file import FRAMEWORKS

VALUES = (str, bytes, int, float, complex, bool, type(None))


def fingerprint(value: Any) -> str:
    """Return the text of a value; two that do the same have the same one."""
    return "\n".join(_lines(value, {}))


def _lines(value: Any, seen: dict[int, Any]) -> Iterator[str]:
    if isinstance(value, VALUES):
        yield repr(value)
    elif id(value) in seen:
        yield "again"
    else:
        seen[id(value)] = value  # held, so that no other value gets its id
        yield from _known(value, seen)


def _known(value: Any, seen: dict[int, Any]) -> Iterator[str]:
    kind = type(value)
    yield f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, ModuleType | BuiltinFunctionType):
        yield getattr(value, "__name__", "")
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__}"
        yield _source(value)
    elif isinstance(value, functools.partial):
        yield from _all([value.func, value.args, value.keywords], seen)
    elif isinstance(value, MethodType):
        yield from _all([value.__func__, value.__self__], seen)
    elif isinstance(value, FunctionType):
        yield from _function(value, seen)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        yield _array(value)
    elif isinstance(value, Mapping):
        yield from _all((part for pair in value.items() for part in pair), seen)
    elif isinstance(value, list | tuple):
        yield from _all(value, seen)
    elif isinstance(value, set | frozenset):
        yield from _all(sorted(value, key=repr), seen)
    else:
        yield from _lines(kind, seen)
        yield from _all(vars(value).items() if hasattr(value, "__dict__") else [str(value)], seen)


def _all(values: Iterable[Any], seen: dict[int, Any]) -> Iterator[str]:
    for value in values:
        yield from _lines(value, seen)


def _function(function: FunctionType, seen: dict[int, Any]) -> Iterator[str]:
    yield f"{function.__module__}.{function.__qualname__}"
    if _is_library(function.__module__):
        return
    yield _source(function)
    used = inspect.getclosurevars(function)
    yield from _all([function.__defaults__, function.__kwdefaults__, dict(used.nonlocals), dict(used.globals)], seen)


def _source(code: Any) -> str:
    """The source of a class or function of one's own; a function's byte code where there is none."""
    if _is_library(code.__module__):
        return ""
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        body = getattr(code, "__code__", None)
        return "" if body is None else f"{body.co_code!r} {[one for one in body.co_consts if isinstance(one, VALUES)]}"


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in {*FRAMEWORKS, "numpy", "builtins"}


def _array(value: Any) -> str:
    text = f"{tuple(value.shape)} {value.dtype} {getattr(value, 'requires_grad', '')}"
    array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    return text if array.dtype.kind not in "biu" else f"{text} {hashlib.sha256(array.tobytes()).hexdigest()}"
