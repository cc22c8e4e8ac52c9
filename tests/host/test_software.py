"""Versions and commit, without importing what they are of."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import whichdevice
from whichdevice.machine import facts


def test_only_what_the_backend_uses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"numpy": "2", "keras": "3", "tensorflow": "2.21", "jax": "0.10", "jaxlib": "0.10"}

    def version(name: str) -> str:
        if name not in installed:
            raise facts.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(facts, "version", version)
    found = facts.describe_software("jax")
    expected = {"whichdevice": whichdevice.__version__, "numpy": "2", "keras": "3", "jax": "0.10", "jaxlib": "0.10"}
    assert found.versions == expected
    assert found.python == sys.version.split()[0]


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ("git", "-C", str(folder), *identity, *arguments), check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A repository with the package's folder in it, committed."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
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


def test_without_git_there_is_no_commit(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert facts.git_commit(scripts) is None
