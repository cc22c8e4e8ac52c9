"""Find plug-ins by what their files declare, read from the source: listing them imports nothing and runs nothing.

A table, figure or backend is a function or class under its decorator, whose arguments are literals. A dataset, command
or workload is a file that defines certain names. A file that declares nothing is a helper and no plug-in.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from whichdevice.base.code_hash import parsed


class Plugin(NamedTuple):
    """A declared function or class, its file's name, and the literal arguments of its decorator by place or name."""

    name: str
    module: str
    arguments: dict[int | str, Any]


def decorated(folder: Path, decorator: str) -> list[Plugin]:
    """Return what is under `@decorator(...)` at the top level of a folder's files."""
    return [
        Plugin(node.name, path.stem, _literals(call))
        for path in _files(folder)
        for node in _decorated(path.read_text(encoding="utf-8"), f"@{decorator}(")
        for call in node.decorator_list
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == decorator
    ]


def _decorated(source: str, start: str) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Functions and classes without their bodies: parsing whole files would take a fifth of a second for all tables."""
    lines = source.splitlines()
    for first, line in enumerate(lines):
        if line.startswith(start):
            last = next(at for at in range(first, len(lines)) if lines[at].startswith(("def ", "class ")))
            kind, name = lines[last].replace("(", " ").replace(":", " ").split()[:2]
            head = "\n".join(lines[first:last])
            (node,) = parsed(f"{head}\n{kind} {name}{'()' * (kind == 'def')}: ...").body
            assert isinstance(node, ast.FunctionDef | ast.ClassDef)
            yield node


def defining(folder: Path, *names: str) -> list[str]:
    """Return the names of a folder's files that define all of these functions, classes or values, sorted."""
    return [path.stem for path in _files(folder) if {*names} <= {*map(defined_name, top_level(path))}]


def defined_name(node: ast.stmt) -> str | None:
    """Return the name that a statement defines: of a function or class, or of a value."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    target: ast.expr | None = None
    if isinstance(node, ast.Assign):
        target = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    return target.id if isinstance(target, ast.Name) else None


@cache
def top_level(path: Path) -> list[ast.stmt]:
    """Return a file's statements."""
    return parsed(path.read_text(encoding="utf-8")).body


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")


def _literals(call: ast.Call) -> dict[int | str, Any]:
    """The arguments that are literals: others, such as a table's columns, show when its file is imported."""
    given: dict[int | str, ast.expr] = dict(enumerate(call.args))
    given.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
    literals: dict[int | str, Any] = {}
    for name, value in given.items():
        try:
            literals[name] = ast.literal_eval(value)
        except ValueError:
            continue
    return literals
