"""The hash changes with code, not with words about it."""

import gc
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from beside import beside

from whichdevice.base.code_hash import PACKAGE, code_hash, code_parts, parsed
from whichdevice.base.errors import StudyError

BESIDE = beside(__file__)

SMALL = BESIDE["small"]
Hashed = Callable[..., str]


@pytest.fixture
def hashed(tmp_path: Path) -> Hashed:
    """Hash the entry of a fresh copy of the package with some files changed; each copy lies elsewhere."""
    copies = iter(range(100))

    def make(*modules: str, changed: dict[str, str] | None = None) -> str:
        package = tmp_path / str(next(copies)) / "whichdevice"
        for name, text in {**SMALL, **(changed or {})}.items():
            path = package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return code_hash(*(modules or ("whichdevice.entry",)), package=package)

    return make


@pytest.mark.parametrize(("file", "text"), BESIDE["counts"])
def test_code_that_is_imported_counts(hashed: Hashed, file: str, text: str) -> None:
    assert hashed(changed={file: text}) != hashed()


@pytest.mark.parametrize(("file", "text"), BESIDE["does not count"])
def test_words_layout_and_other_modules_do_not_count(hashed: Hashed, file: str, text: str) -> None:
    assert hashed(changed={file: text}) == hashed()


def test_the_entry_itself_and_a_module_named_by_the_caller_count(hashed: Hashed) -> None:
    both = ("whichdevice.entry", "whichdevice.unrelated")
    assert hashed(*both) != hashed()
    assert hashed(*both, changed={"unrelated.py": "def number(): return 5\n"}) != hashed(*both)
    assert hashed(*both) == hashed(*reversed(both))


def test_files_count_with_their_imports(tmp_path: Path) -> None:
    package = tmp_path / "whichdevice"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "late.py").write_text("x = 1\n", encoding="utf-8")
    hashes = {}
    for name, text in BESIDE["files"].items():
        file = tmp_path / name / "mine.py"
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        hashes[name] = code_hash(files=[file], package=package)
    assert hashes["plain"] == hashes["worded"]
    assert len({hashes[name] for name in ("plain", "changed", "importing", "broken")}) == 4
    assert hashes["plain"] != code_hash(package=package)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"no module whichdevice\.nowhere"):
        code_hash("whichdevice.nowhere")
    with pytest.raises(StudyError, match=r"cannot read .*mine\.py: No such file"):
        code_hash(files=[tmp_path / "mine.py"])


def test_a_run_depends_on_its_own_code_and_not_on_config_tables_or_figures():

    parts = code_parts(
        "whichdevice.measure.process",
        "whichdevice.measure.backends.tensorflow",
        "whichdevice.models.workloads.mnist_cnn",
    )
    assert {"whichdevice.measure.training_run", "whichdevice.models.image_classifier"} <= set(parts)
    strangers = ("config", "tables", "figures", "report", "planning", "forecast", "commands", "workloads.weather_gru")
    assert not [name for name in parts if name.startswith(tuple(f"whichdevice.{name}" for name in strangers))]


SOURCE = b"def model(options):\n    return [[name, (name, {name: name})] for name in options if name]\n" * 20


@pytest.fixture
def threads_change_within_a_tree():
    """Garbage collection, which runs within the building of a tree, lets another thread go on."""
    threshold = gc.get_threshold()

    def another(phase, facts):
        time.sleep(0)

    gc.callbacks.append(another)
    gc.set_threshold(50)
    yield
    gc.callbacks.remove(another)
    gc.set_threshold(*threshold)


def test_threads_read_source_at_once(threads_change_within_a_tree):
    with ThreadPoolExecutor(5) as pool:
        trees = list(pool.map(parsed, [SOURCE] * 100))
    assert {len(tree.body) for tree in trees} == {20}


def test_what_is_no_python_raises_as_ever():
    with pytest.raises(SyntaxError):
        parsed("def model(:")


COUNTS_READS = BESIDE["counts reads"]


def test_what_an_earlier_process_read_is_read_again_only_where_nothing_sound_is_kept(tmp_path):
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}

    def hashed_and_read() -> tuple[str, int]:
        command = [sys.executable, "-c", COUNTS_READS]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        code, count = done.stdout.split()
        return code, int(count)

    first, reads = hashed_and_read()
    assert reads > 1
    assert hashed_and_read() == (first, 0)
    [kept] = tmp_path.rglob("code_hash*.json")
    kept.write_text("{", encoding="utf-8")
    assert hashed_and_read() == (first, reads)


def test_a_table_that_a_module_reads_counts_as_its_code(hashed: Hashed) -> None:
    reads = {"shared.py": "ROWS = rows_of_code(__file__, 'sizes.csv')\ndef double(x):\n    return 2 * x\n"}
    first, other = (hashed(changed={**reads, "sizes.csv": f"size\n{size}\n"}) for size in (1, 2))
    assert first != other == hashed(changed={**reads, "sizes.csv": "size\n2\n"})
