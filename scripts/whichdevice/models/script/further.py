"""Trainings after the one where a script was stopped, which its text shows to be as long or so many times as long.

times, lines = further(stack, "fit", is_model)    # (2.0, [191]): line 191 trains for as many epochs again
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from whichdevice.models.script.run import calls_of
from whichdevice.models.script.size import EPOCHS, Function, Stack
from whichdevice.models.script.text import UNKNOWN, last_name, stored_in, value_in

Is = Callable[[Any], bool]


def further(stack: Stack, name: str, is_model: Is) -> tuple[float, list[int]]:
    """Return how many times a training by a library's function comes in all, and the lines that train again.

    Another model's training counts as one of the first, which alone is known; one with other data, or after a part of
    the model was set free, does not count.
    """
    times, lines = 1.0, list[int]()
    called = [*(part.code.co_name for part in stack.own[1:]), name]
    for part, callee in zip(stack.own, called, strict=True):
        known = list(_again(part, callee, is_model))
        times *= 1 + sum(share for _, share in known)
        lines += [line for line, _ in known]
    return times, lines


def _called(node: ast.AST, name: str) -> list[ast.Call]:
    return [call for call in calls_of(node) if last_name(call.func) == name]


def _again(part: Function, name: str, is_model: Is) -> Iterator[tuple[int, float]]:
    """The lines of like calls after that of a function's line, in its block, each with its epochs over those of it."""
    place = part.path[-1] if part.path else None
    if place is None or hasattr(place.node, "body") or not (calls := _called(place.node, name)):
        return
    first, scope, text = calls[0], dict(part.scope), ast.unparse(calls[0].func)
    for node in place.block[place.number + 1 :]:
        if any(isinstance(inner, ast.Attribute) and inner.attr == "trainable" for inner in ast.walk(node)):
            return
        for call in () if hasattr(node, "body") else _called(node, name):
            owner = getattr(call.func, "value", None)
            alike = ast.unparse(call.func) == text or (owner is not None and is_model(value_in(owner, scope)))
            if alike and (share := _share(first, call, part.scope, scope, is_model)) is not None:
                yield call.lineno, share
        scope |= dict.fromkeys(stored_in(node), UNKNOWN)


def _share(
    one: ast.Call, other: ast.Call, before: Mapping[str, Any], scope: Mapping[str, Any], is_model: Is
) -> float | None:
    """The epochs of another call over those of the first; None where it may train with other data or in another way."""
    share, names, other_model = 1.0, False, False
    first, second = _given(one), _given(other)
    if first.keys() != second.keys():
        return None
    for key, node in first.items():
        old, new = value_in(node, before), value_in(second[key], scope)
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
