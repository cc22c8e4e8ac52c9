"""Find plug-ins by what their files declare, read from the source: listing them imports nothing and runs nothing.

A table, figure or backend is a function or class under its decorator, whose arguments are literals. A dataset, command
or workload is a file that defines certain names. A file that declares nothing is a helper and no plug-in.
"""

import ast
import re
from contextlib import suppress
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
    form = re.compile(rf"^@{decorator}(\(.*?\))\n(?:@[^\n]*\n)*(?:def|class) (\w+)", re.MULTILINE | re.DOTALL)
    return [
        Plugin(name, path.stem, _literals(arguments))
        for path in _files(folder)
        for arguments, name in form.findall(path.read_text(encoding="utf-8"))
    ]


def defining(folder: Path, *names: str) -> list[str]:
    """Return the names of a folder's files that define all of these functions and values, sorted."""
    return matching(folder, *(rf"^(def )?{name}(\(|:[^=\n]*=| =)" for name in names))


def matching(folder: Path, *patterns: str) -> list[str]:
    """Return the names of a folder's files that have lines of all of these patterns, sorted."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in _files(folder)}
    return [name for name, text in texts.items() if all(re.search(form, text, re.MULTILINE) for form in patterns)]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")


def _literals(arguments: str) -> dict[int | str, Any]:
    """The arguments that are literals: others, such as a table's columns, show when its file is imported."""
    call = next(node for node in ast.walk(parsed(f"_{arguments}")) if isinstance(node, ast.Call))
    keywords: dict[int | str, ast.expr] = {part.arg: part.value for part in call.keywords if part.arg}
    literals: dict[int | str, Any] = {}
    for name, value in [*enumerate(call.args), *keywords.items()]:
        with suppress(ValueError):
            literals[name] = ast.literal_eval(value)
    return literals
