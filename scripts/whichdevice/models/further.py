"""Trainings after the one where a script was stopped, which its text shows to be as long or so many times as long.

times, lines = further(stack, "fit", is_model)    # (2.0, [191]): line 191 trains for as many epochs again
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from whichdevice.code_hash import parsed
from whichdevice.models.evaluation import UNKNOWN, value_in
from whichdevice.models.script_run import calls_of
from whichdevice.models.script_size import EPOCHS, Stack, function_at

Is = Callable[[Any], bool]


class _Place(NamedTuple):
    """A call with the statements of its block that follow it, and the variables there."""

    call: ast.Call
    after: Sequence[ast.stmt]
    scope: Mapping[str, Any]


def further(stack: Stack, name: str, is_model: Is) -> tuple[float, list[int]]:
    """Return how many times a training by a library's function comes in all, and the lines that train again.

    Another model's training counts as one of the first, which alone is known; one with other data, or after a part of
    the model was set free, does not count.
    """
    times, lines = 1.0, list[int]()
    called = [*(part.code.co_name for part in stack.own[1:]), name]
    for part, callee in zip(stack.own, called, strict=True):
        tree: Any = function_at(parsed(Path(part.code.co_filename).read_bytes()), part.line)
        place = next(_places(tree, part.line, callee, {**part.module, **part.variables}), None)
        known = [] if place is None else list(_again(place, is_model))
        times *= 1 + sum(share for _, share in known)
        lines += [line for line, _ in known]
    return times, lines


def _places(tree: Any, line: int, name: str, scope: Mapping[str, Any]) -> Iterator[_Place]:
    """The place of the innermost statement of a line that calls a function of this name."""
    for field in ("body", "orelse", "finalbody"):
        body = getattr(tree, field, [])  # of a lambda an expression
        for number, node in enumerate(body if isinstance(body, list) else []):
            if node.lineno <= line <= (node.end_lineno or 0):
                yield from _places(node, line, name, scope)
                if not hasattr(node, "body"):
                    yield from (_Place(call, body[number + 1 :], scope) for call in _called(node, name))


def _called(node: ast.AST, name: str) -> list[ast.Call]:
    return [call for call in calls_of(node) if name in (getattr(call.func, "attr", ""), getattr(call.func, "id", ""))]


def _again(place: _Place, is_model: Is) -> Iterator[tuple[int, float]]:
    """The lines of like calls after this one, each with its epochs over those of this one."""
    scope, text = dict(place.scope), ast.unparse(place.call.func)
    for node in place.after:
        if any(isinstance(part, ast.Attribute) and part.attr == "trainable" for part in ast.walk(node)):
            return
        calls = () if hasattr(node, "body") else _called(node, text.rpartition(".")[2])
        for call in calls:
            owner = getattr(call.func, "value", None)
            alike = ast.unparse(call.func) == text or (owner is not None and is_model(value_in(owner, scope)))
            if alike and (share := _share(place, call, scope, is_model)) is not None:
                yield call.lineno, share
        stored = (part for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
        scope |= {part.id: UNKNOWN for part in stored}


def _share(place: _Place, call: ast.Call, scope: Mapping[str, Any], is_model: Is) -> float | None:
    """The epochs of another call over those of the first; None where it may train with other data or in another way."""
    share, names, other_model = 1.0, False, False
    first, second = _given(place.call), _given(call)
    if first.keys() != second.keys():
        return None
    for key, node in first.items():
        old, new = value_in(node, place.scope), value_in(second[key], scope)
        if old is UNKNOWN and ast.unparse(node) == ast.unparse(second[key]) and not _is_new(node, scope):
            continue
        if old is new is not UNKNOWN or (type(old) in (int, float, str) and old == new):
            continue
        if is_model(old) and (new is UNKNOWN or is_model(new)):
            other_model = True
        elif key in EPOCHS and type(old) is type(new) is int and old > 0:
            share = new / old
        elif type(old) is type(new) is str:
            names = True
        elif not type(old) is type(new) is float:
            return None
    return share if other_model or not names else None


def _is_new(node: ast.expr, scope: Mapping[str, Any]) -> bool:
    """Whether a name in an expression was set anew."""
    return any(isinstance(part, ast.Name) and scope.get(part.id) is UNKNOWN for part in ast.walk(node))


def _given(call: ast.Call) -> dict[Any, ast.expr]:
    return {**dict(enumerate(call.args)), **{part.arg: part.value for part in call.keywords}}
