"""The package's files: who imports whom, and what is a plug-in."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import whichdevice
from whichdevice.base.plugins import decorated, defining

PACKAGE = Path(whichdevice.__file__).parent
HELPER = '"""What others share."""\n\n\ndef draw_line():\n    """@makes("a table", {}) is only mentioned here."""\n'


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


def test_a_circle_through_an_import_inside_a_function_is_found(tmp_path):
    (tmp_path / "one.py").write_text(f"import {tmp_path.name}.two\n", encoding="utf-8")
    (tmp_path / "two.py").write_text(f"def late():\n    from {tmp_path.name} import one\n", encoding="utf-8")
    assert len(circle(tmp_path)) == 3


def test_a_file_that_declares_nothing_is_no_plug_in(tmp_path):
    (tmp_path / "helper.py").write_text(HELPER, encoding="utf-8")
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    assert not [*decorated(tmp_path, "makes"), *decorated(tmp_path, "backend"), *defining(tmp_path, "RECIPE")]


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('@makes("moods", COLUMNS)\ndef make_moods(sources: Sources) -> pd.DataFrame:\n', "make_moods", {0: "moods"}),
        (
            '@makes(\n    "a " "b",\n    about={"x": 1},\n)\n@other\ndef make_b(\n    sources\n):\n',
            "make_b",
            {0: "a b", "about": {"x": 1}},
        ),
        ('@makes("kind")\nclass Kind(Base):\n', "Kind", {0: "kind"}),
    ],
)
def test_a_declaration_is_read_without_an_import(tmp_path, text, name, arguments):
    (tmp_path / "file.py").write_text(f"import nothing_of_that_name\n\n\n{text}    pass\n", encoding="utf-8")
    (found,) = decorated(tmp_path, "makes")
    assert (found.name, found.module, found.arguments) == (name, "file", arguments)


@pytest.mark.parametrize("guess", ["importor" + "skip", "pytest." + "skip(", "if(find_" + "spec", "shutil." + "which"])
def test_tests_say_what_they_need_in_one_way(guess):
    """By the marker, or `require` of tests/needs.py."""
    files = [path for path in Path(__file__).parent.rglob("*.py") if guess in path.read_text(encoding="utf-8")]
    assert {path.name for path in files} <= {"needs.py", "test_install.py", "throwaway_slurm.py"}
