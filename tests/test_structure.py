"""The files of the package and of its tests: who imports whom, and how a need is said."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import whichdevice

PACKAGE = Path(whichdevice.__file__).parent


def imports(folder: Path) -> dict[str, set[str]]:
    """For each module of a package the modules that it imports, inside functions and for type checkers too."""
    files = {".".join(path.relative_to(folder.parent).with_suffix("").parts): path for path in folder.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in files.items()}
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                assert not node.level, f"{name} imports relatively"
                whole = {f"{node.module}.{alias.name}" for alias in node.names} & modules.keys()
                named |= whole or {str(node.module)}
        found[name] = (named & modules.keys()) - {name}
    return found


def circle(folder: Path) -> list[str]:
    try:
        TopologicalSorter(imports(folder)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other_in_a_circle():
    assert circle(PACKAGE) == []


@pytest.mark.parametrize("guess", ["importor" + "skip", "pytest." + "skip(", "if(find_" + "spec", "shutil." + "which"])
def test_tests_say_what_they_need_in_one_way(guess):
    """By the marker, or `require` of tests/needs.py."""
    files = [path for path in Path(__file__).parent.rglob("*.py") if guess in path.read_text(encoding="utf-8")]
    assert {path.name for path in files} <= {"needs.py", "test_install.py", "throwaway_slurm.py"}
