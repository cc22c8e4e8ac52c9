"""Values of a Python file's constants, worked out from its syntax tree without running it."""

import ast
import operator
from collections.abc import Iterator, Mapping
from typing import Any

ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
LARGEST = 64  # bits of a whole number


class FaultError(ValueError):
    """What is wrong with a constant, in words."""


def constants(tree: ast.Module) -> list[tuple[str, Any, int]]:
    """(name, value, line) of each assignment to a name in capitals; the value is a FaultError where it is not plain."""
    known: dict[str, Any] = {}
    found = []
    for node in tree.body:
        for target, written in _assigned(node):
            try:
                known[target] = _value(written, known)
            except FaultError as error:
                known[target] = error
            if target.isupper():
                found.append((target, known[target], node.lineno))
    return found


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Names that a statement gives a value: NAME = ..., NAME: type = ..., A = B = ..., A, B = ..., ..."""
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
        return tuple(_value(each, known) for each in node.elts)
    if isinstance(node, ast.Dict):
        keys = [_value(key, known) for key in node.keys if key is not None]
        if not all(isinstance(key, str) for key in keys) or len(keys) < len(node.keys):
            raise FaultError("must have names in quotes as its keys")
        return {key: _value(value, known) for key, value in zip(keys, node.values, strict=True)}
    if isinstance(node, ast.Name) and node.id in known:
        if isinstance(known[node.id], FaultError):
            raise known[node.id]
        return known[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(_value(node.operand, known))
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        left, right = (_number(_value(side, known)) for side in (node.left, node.right))
        try:
            result = ARITHMETIC[type(node.op)](left, right)
        except ArithmeticError as error:
            raise FaultError(f"cannot be worked out: {error}") from error
        if isinstance(result, int) and result.bit_length() > LARGEST:
            raise FaultError("is far too large")
        return result
    raise FaultError("must be a plain value: it is read without running the file")


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FaultError("must be a plain value: it is read without running the file")
    return value
