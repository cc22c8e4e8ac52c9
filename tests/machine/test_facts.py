"""A record describes the machine and its software, and names nobody."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from needs import require

from whichdevice.base.identity import machine_identity
from whichdevice.measure.machine import facts


def test_no_host_name_stands_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    name = platform.uname()._replace(node="a-host-name-that-tells")
    monkeypatch.setattr(platform, "uname", lambda: name)
    assert platform.node() == "a-host-name-that-tells"
    assert "that-tells" not in facts.describe_machine("cpu", 1).model_dump_json()


def test_it_is_the_same_each_time_and_not_the_systems_own_id(tmp_path):
    file = tmp_path / "machine-id"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    first = machine_identity((file,))
    assert first == machine_identity((tmp_path / "none", file))
    assert first is not None and len(first) == 12 and first not in file.read_text()
    file.write_text("f123456789abcdef0123456789abcdef\n")
    assert machine_identity((file,)) != first


def test_a_system_without_an_id_has_no_identity(tmp_path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "early").write_text("uninitialized\n")
    assert machine_identity((tmp_path / "none", tmp_path / "empty", tmp_path / "early")) is None


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ("git", "-C", str(folder), *identity, *arguments), check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A repository with the package's folder in it, committed."""
    require("git")
    package = tmp_path / "scripts/whichdevice"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path / "scripts"


def test_a_clean_tree_gives_the_commit(scripts: Path) -> None:
    (scripts.parent / "results").mkdir()
    (scripts.parent / "results/record.json").touch()  # not code
    assert facts.git_commit(scripts) == git(scripts, "rev-parse", "HEAD")


@pytest.mark.parametrize("file", ["whichdevice/__init__.py", "new.py"])
def test_changed_or_new_code_is_marked(scripts: Path, file: str) -> None:
    (scripts / file).write_text("x = 1\n", encoding="utf-8")
    assert facts.git_commit(scripts) == git(scripts, "rev-parse", "HEAD") + "+modified"


def test_a_copy_inside_another_repository_has_no_commit(scripts: Path) -> None:
    copy = scripts.parent / "site-packages"
    shutil.copytree(scripts, copy)
    assert facts.git_commit(copy) is None
