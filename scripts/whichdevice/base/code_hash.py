"""Hash the code that a step really runs: edits to it measure again, edits to words about it do not.

The hash covers the named modules and all that they import within this package, found in the syntax tree. Comments,
formatting, docstrings, imports for type checkers and `__version__` do not count; a table that a module reads by
`rows_of_code` counts as the module does. Modules that are imported by a computed name (a workload, a backend) are named
by the caller.

Reading a hundred syntax trees takes a second, so what each gave is kept beside this module's bytecode, by a checksum of
the file's content: an edited file is read anew whatever its date.
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from threading import Lock

from whichdevice.base.errors import StudyError
from whichdevice.base.files import csv_rows, write_atomically

_lock = Lock()
PACKAGE = Path(__file__).parents[1]
HASH_LENGTH = 16
KEY_LENGTH = 12
RULES = Path(__file__).read_bytes()  # with other rules a file has another digest
DIGESTS = Path(cache_from_source(__file__)).with_suffix(".json")
TABLE = ".csv"
MAX_KEPT = 2000  # states of files; a checkout has about 300 files


def parsed(source: str | bytes) -> ast.Module:
    """The syntax tree of a file's content.

    Python 3.11 counts the depth of trees for all threads together and fails with SystemError where two threads read at
    once (CPython issue 106905). Raises SyntaxError, ValueError and RecursionError as ast.parse does.
    """
    with _lock:
        return ast.parse(source)


def string_constants(source: str | bytes) -> set[str]:
    """Return every string in a file's content."""
    nodes = ast.walk(parsed(source))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def rows_of_code(module: str, table: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file beside a module, which is named by `__file__`; its hash covers them."""
    return csv_rows(Path(module).with_name(table))


def imported_names(tree: ast.Module, inside: str) -> Iterator[str]:
    """Return absolute names of all that a file of the package `inside` imports, anywhere; a name may be no module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = inside.split(".") if inside else []
            start = parents[: len(parents) - node.level + 1] if node.level else []
            base = [*start, *([node.module] if node.module else [])]
            yield from (".".join(filter(None, [*base, name])) for name in ("", *(alias.name for alias in node.names)))


def imported_packages(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the first names of the modules that statements import, without relative imports."""
    packages = set[str]()
    for node in nodes:
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            packages.add(node.module.partition(".")[0])
    return packages


def code_hash(*modules: str, files: Iterable[Path] = (), package: Path = PACKAGE) -> str:
    """16 hexadecimal digits over `modules` (`whichdevice.measure.backends.jax`), `files` and their imports.

    A `.py` file counts like a module, without modules of its folder that it may import; any other file counts by its
    bytes, and each by its name without its folder. Each file is read once per process. Raises ModuleNotFoundError for a
    module that is not in the package, StudyError for a file that cannot be read.
    """
    parts = sorted(code_parts(*modules, files=files, package=package).items())
    digests = "\n".join(f"{name} {digest}" for name, digest in parts)
    return hashlib.sha256(digests.encode()).hexdigest()[:HASH_LENGTH]


def content_key(*parts: object) -> str:
    """12 hexadecimal digits of a hash of values that JSON can hold: the folder of what is made from them."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]


def code_parts(*modules: str, files: Iterable[Path] = (), package: Path = PACKAGE) -> dict[str, str]:
    """Return a digest for each module and file that `code_hash` covers: its keys say why something measures again."""
    parts: dict[str, str] = {}
    known, waiting = len(_kept()), set(modules)
    for path in files:
        try:
            digest, imports = _source(path, "", package)
        except OSError as error:
            raise StudyError(f"cannot read {path}: {error.strerror or error}") from error
        parts[f"file {path.name} {digest}"] = digest  # two files may share a name
        waiting |= imports
    for module in modules:
        if _find(module, package) is None:
            raise ModuleNotFoundError(f"no module {module} in {package.name}")
    while waiting:
        module = waiting.pop()
        source = _find(module, package)
        if module not in parts and source is not None:
            parts[module], imports = _source(source, module, package)
            waiting |= imports | {module.rpartition(".")[0]}  # importing a module runs its packages first
    _keep(known)
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
def _source(path: Path, module: str, package: Path) -> tuple[str, frozenset[str]]:
    """Return what one file adds: a digest of its code and tables, and the modules of the package that it may import."""
    content = path.read_bytes()
    inside = module if path.name == "__init__.py" else module.rpartition(".")[0]
    key = f"{hashlib.sha256(RULES + content).hexdigest()} {path.suffix} {inside}"
    if key not in _kept():
        _kept()[key] = _digest_and_imports(content, path.suffix == ".py", inside)
    digest, imports = _kept()[key]
    for table in (path.with_name(name) for name in imports if name.endswith(TABLE)):
        digest = hashlib.sha256(digest.encode() + (table.read_bytes() if table.is_file() else b"")).hexdigest()
    return digest, frozenset(name for name in imports if _find(name, package) is not None)


def _digest_and_imports(content: bytes, is_python: bool, inside: str) -> tuple[str, list[str]]:
    try:
        tree = parsed(content) if is_python else None
    except (SyntaxError, ValueError):
        tree = None  # its importer reports it better
    if tree is None:
        return hashlib.sha256(content).hexdigest(), []
    tables = set[str]()  # that the file reads by `rows_of_code`
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, name, list(_counted(value)))
        match node:
            case ast.Call(func=ast.Name(id="rows_of_code"), args=[_, ast.Constant(value=str(table))]):
                tables.add(table)
    imports = {name for name in imported_names(tree, inside) if name.partition(".")[0] == PACKAGE.name}
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), sorted(imports | tables)


@cache
def _kept() -> dict[str, tuple[str, list[str]]]:
    """Digests and imports by a file's content and place, as earlier processes left them."""
    try:
        kept = json.loads(DIGESTS.read_bytes())
    except (OSError, ValueError):
        return {}
    return kept if len(kept) <= MAX_KEPT else {}


def _keep(known: int) -> None:
    """Leave digests for the next process, if there are more of them than `known`."""
    if len(_kept()) > known:
        with suppress(OSError):  # a folder that cannot be written costs the next process its time
            write_atomically(json.dumps(dict(_kept())), DIGESTS)


def _counted(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All but strings that stand alone (docstrings), type checkers' imports and the version number."""
    for node in statements:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from _counted(node.orelse)
        elif not (isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__version__"]):
            yield node
