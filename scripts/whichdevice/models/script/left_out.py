"""Statements of a script that fail here and that its training may not need: they are left out, and the answer says so.

A folder that a silent logger does not name, a program that is not installed or a picture that is drawn from a step
without values ends a script before its training. Where a run ended so, the script runs again without that statement.
What it would have set is silent. What reads data, defines a model's forward pass or gives an example is never left out.
"""

import ast
import sys
import traceback
from collections.abc import Collection, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from whichdevice.base.code_hash import parsed
from whichdevice.base.errors import lacks_memory
from whichdevice.models.model_file import error_words
from whichdevice.models.script.found import Place
from whichdevice.models.script.stand_ins import FirstFinder

MAX_LEFT_OUT = 3  # statements of a script
NEEDED = {"forward", "call", "__call__", "__getitem__", "__getitems__", "__iter__", "__next__", "__len__"}
GIVES = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.With  # statements whose outcome is used later
ENDS = ast.Expr | ast.Assert | ast.Raise  # statements whose outcome is not
SILENT = ast.parse("__import__('whichdevice.models.script.stand_ins', fromlist=['Silent']).Silent()", mode="eval").body


def place_to_leave_out(error: BaseException, own: Collection[str]) -> Place | None:
    """Return the innermost statement of these files that an error passed, where a script may train without it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in own]
    if any(frame.name in NEEDED for frame in frames) or lacks_memory(error) or not isinstance(error, Exception):
        return None
    for frame in reversed(frames[1:] or frames):  # the first one calls all that the script does
        statement = _statement_at(parsed(Path(frame.filename).read_bytes()), frame.lineno or 0)
        absent = isinstance(error, OSError | ImportError | NameError)
        if isinstance(statement, ast.Expr | ast.Assert) or (isinstance(statement, ENDS | GIVES) and not absent):
            return Place(frame.filename, frame.lineno or 0, _said(error))
    return None


def code_without(file: str, lines: Collection[int]) -> CodeType:
    """Return the code of a file that goes on where one of the statements at these lines fails."""
    tree = parsed(Path(file).read_bytes())
    statements = {id(_statement_at(tree, line)) for line in lines}
    _Without(statements).visit(tree)
    return compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)


def run_file(path: Path, given: Mapping[str, Any], left_out: Sequence[Place]) -> dict[str, Any]:
    """Run a file as `python FILE` does, without what is left out of it; return its variables."""
    main = ModuleType("__main__")
    vars(main).update(given, __file__=str(path))
    sys.modules["__main__"] = main
    exec(code_without(str(path), _lines(left_out, str(path))), vars(main))  # nosec B102  # the user's own script
    return vars(main)


class LeavingOut(FirstFinder):
    """Has modules beside a script imported without what is left out of them."""

    def __init__(self, left_out: Sequence[Place]) -> None:
        self._left_out = left_out

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of which something is left out."""
        spec = PathFinder.find_spec(name, path) if self._left_out else None
        if spec is None or spec.origin is None or not (lines := _lines(self._left_out, spec.origin)):
            return None
        loader = _Shortened(name, spec.origin, lines)
        return spec_from_file_location(
            name, spec.origin, loader=loader, submodule_search_locations=spec.submodule_search_locations
        )


class _Shortened(SourceFileLoader):
    """Loads a file without the statements at some lines, and keeps no bytecode of it."""

    def __init__(self, name: str, path: str, lines: Collection[int]) -> None:
        super().__init__(name, path)
        self._lines = lines

    def get_code(self, fullname: str) -> CodeType:
        return code_without(self.get_filename(fullname), self._lines)


class _Without(ast.NodeTransformer):
    """Goes on where one of some statements fails; what it would have set or returned is silent."""

    def __init__(self, statements: Collection[int]) -> None:
        self._statements = statements

    def visit(self, node: ast.AST) -> ast.AST:
        """Return a statement within a `try`, or the same node."""
        changed: ast.AST = super().generic_visit(node)
        if id(node) not in self._statements or not isinstance(node, ast.stmt):
            return changed
        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, _silent_of(node))
        return ast.copy_location(ast.Try([node], [handler], [], []), node)


def _silent_of(statement: ast.stmt) -> list[ast.stmt]:
    """Return what a statement that failed gives: silent names, a silent value, or nothing."""
    if isinstance(statement, ast.Return):
        return [ast.Return(SILENT)]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    names = [
        node
        for target in targets
        for node in ast.walk(target or ast.Pass())
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
    ]
    if isinstance(statement, ast.AugAssign) or not names:
        return [ast.Pass()]
    return [ast.Assign([name], SILENT) for name in names]


def _statement_at(tree: ast.Module, line: int) -> ast.stmt | None:
    """The innermost statement at a line; of what holds others its first lines."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def _said(error: BaseException) -> str:
    """An error in words, without a tensor that has no values."""
    return type(error).__name__ if "FakeTensor" in str(error) else error_words(error)


def _lines(left_out: Sequence[Place], file: str) -> list[int]:
    return [place.line for place in left_out if place.file == file]
