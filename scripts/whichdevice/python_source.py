"""Python source as a syntax tree, read by one thread at a time."""

import ast
from threading import Lock

_lock = Lock()


def parsed(source: str | bytes) -> ast.Module:
    """The syntax tree of a file's content.

    Python 3.11 counts the depth of trees for all threads together and fails with SystemError where two threads read at
    once (CPython issue 106905). Raises SyntaxError, ValueError and RecursionError as ast.parse does.
    """
    with _lock:
        return ast.parse(source)


def string_constants(source: str | bytes) -> set[str]:
    """Every string that stands in a file's content."""
    nodes = ast.walk(parsed(source))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
