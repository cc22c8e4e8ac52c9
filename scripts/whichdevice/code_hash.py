"""A hash of the code that a step really runs: edits to it measure again, edits to words about it do not.

It covers the named modules and all that they import within this package, found in the syntax tree. Comments,
formatting, docstrings, imports for type checkers and `__version__` do not count. Modules that are imported by
a computed name (a workload, a backend) are named by the caller.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from whichdevice.errors import StudyError
from whichdevice.python_source import parsed

PACKAGE = Path(__file__).parent
LENGTH = 16
# Fields that carry no meaning, or that only some Python versions have.
IGNORED_FIELDS = {"ctx", "type_comment", "kind", "type_ignores"}


class Source(NamedTuple):
    """What one file adds: a digest of its code, and the modules of the package that it may import."""

    digest: str
    imports: frozenset[str]


def code_hash(*modules: str, files: Iterable[Path] = (), package: Path = PACKAGE) -> str:
    """16 hexadecimal digits over `modules` (dotted, e.g. `whichdevice.backends.jax`), `files` and their imports.

    A `.py` file counts like a module, without the modules beside it that it may import; any other file
    counts by its bytes, and each by its name without its folder. The same on every Python from 3.11 on.
    Each file is read once per process. Raises ModuleNotFoundError for a module that is not in the package,
    StudyError for a file that cannot be read.
    """
    parts = sorted(code_parts(*modules, files=files, package=package).items())
    whole = "\n".join(f"{name} {digest}" for name, digest in parts)
    return hashlib.sha256(whole.encode()).hexdigest()[:LENGTH]


def code_parts(*modules: str, files: Iterable[Path] = (), package: Path = PACKAGE) -> dict[str, str]:
    """What `code_hash` covers: a digest for each module and file. Its keys say why something measures again."""
    parts: dict[str, str] = {}
    waiting = set(modules)
    for path in files:
        try:
            source = _source(path, "", package)
        except OSError as error:
            raise StudyError(f"cannot read {path}: {error.strerror or error}") from error
        parts[f"file {path.name} {source.digest}"] = source.digest  # two files may share a name
        waiting |= source.imports
    for module in modules:
        if _find(module, package) is None:
            raise ModuleNotFoundError(f"no module {module} in {package.name}")
    while waiting:
        module = waiting.pop()
        found = _find(module, package)
        if module not in parts and found is not None:
            source = _source(found, module, package)
            parts[module] = source.digest
            waiting |= source.imports
            waiting.add(module.rpartition(".")[0])  # importing a module runs its packages first
    return parts


@cache
def _find(module: str, package: Path) -> Path | None:
    """The file of a module of the package, or None."""
    first, *rest = module.split(".")
    if first != package.name:
        return None
    base = package.joinpath(*rest)
    candidates = (base / "__init__.py", base.with_suffix(".py")) if rest else (base / "__init__.py",)
    return next((path for path in candidates if path.is_file()), None)


@cache
def _source(path: Path, module: str, package: Path) -> Source:
    content = path.read_bytes()
    try:
        tree = parsed(content) if path.suffix == ".py" else None
    except (SyntaxError, ValueError):
        tree = None  # whoever imports it says so better
    if tree is None:
        return Source(hashlib.sha256(content).hexdigest(), frozenset())
    inside = module if path.name == "__init__.py" else module.rpartition(".")[0]
    imports = {name for name in _imports(tree, inside) if _find(name, package) is not None}
    out: list[str] = []
    _write(tree, out)
    return Source(hashlib.sha256("\0".join(out).encode()).hexdigest(), frozenset(imports))


def _imports(node: ast.AST, inside: str) -> Iterator[str]:
    """Absolute names of everything imported anywhere below `node`; a name may turn out to be no module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            parents = inside.split(".")
            start = parents[: len(parents) - child.level + 1] if child.level else []
            base = ".".join([*start, *([child.module] if child.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.If) and _is_type_checking(child.test):
            for other in child.orelse:
                yield from _imports(ast.Module([other], []), inside)
        elif not isinstance(child, ast.expr):  # expressions import nothing
            yield from _imports(child, inside)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _counts(statement: ast.AST) -> bool:
    """False for strings that stand alone (docstrings), type checkers' imports and the version number."""
    if isinstance(statement, ast.Expr):
        return not (isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str))
    if isinstance(statement, ast.If):
        return bool(statement.orelse) or not _is_type_checking(statement.test)
    if isinstance(statement, ast.Assign):
        return not any(isinstance(target, ast.Name) and target.id == "__version__" for target in statement.targets)
    return True


def _write(value: object, out: list[str]) -> None:
    """Write a tree as tokens that no Python version changes: `ast.dump` does (3.13 leaves out empty lists)."""
    if isinstance(value, ast.JoinedStr):
        value = _merged(value)
    if isinstance(value, ast.AST):
        out.append(f"({type(value).__name__}")
        for name in value._fields:
            field = getattr(value, name, None)
            if name not in IGNORED_FIELDS and field is not None and field != []:
                out.append(name)
                _write(field, out)
        out.append(")")
    elif isinstance(value, list):
        out.append("[")
        for item in value:
            if _counts(item):
                _write(item, out)
        out.append("]")
    else:
        out.append(f"{type(value).__name__} {value!a}")  # repr depends on the version's Unicode tables


def _merged(text: ast.JoinedStr) -> ast.JoinedStr:
    """Join neighbouring constants of an f-string and drop empty ones, which Python versions split differently."""
    values: list[ast.expr] = []
    for value in text.values:
        last = values[-1] if values else None
        if isinstance(value, ast.Constant) and isinstance(last, ast.Constant):
            values[-1] = ast.Constant(str(last.value) + str(value.value))
        elif not (isinstance(value, ast.Constant) and value.value == ""):
            values.append(value)
    return ast.JoinedStr(values)
