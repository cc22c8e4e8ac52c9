"""The wheel: the workflow travels with the package, and its requirements are those of envs/*.in."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=project_root, check=True, capture_output=True)
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package as pip would unpack it."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def whichdevice(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "whichdevice", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_every_script_and_rule_is_in_the_wheel(wheel: Path, project_root: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    own = [*project_root.glob("rules/*.smk"), *project_root.glob("scripts/*.py"), project_root / "Snakefile"]
    assert {f"whichdevice/workflow/{path.relative_to(project_root).as_posix()}" for path in own} <= names
    assert "whichdevice/workflow/config/config.yaml" in names
    assert "whichdevice/workflow/docs/examples/my_model.py" in names


def test_its_requirements_are_those_of_the_environments(wheel: Path, project_root: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    lines = archive.read(name).decode().partition("\n\n")[0].splitlines()
    required = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    base = {each.partition(";")[0].strip() for each in required if "extra ==" not in each}
    texts = [(project_root / "envs" / f"{name}.in").read_text(encoding="utf-8") for name in ("common", "cpu")]
    asked = [line.partition("#")[0].partition(";")[0].strip() for text in texts for line in text.splitlines()]
    assert base == {each for each in asked if each and not each.startswith("-r ")}
    assert [line for line in lines if line.startswith("Provides-Extra: ")] == [
        f"Provides-Extra: {name}" for name in ("cpu", "gpu", "torch", "tpu")
    ]
    assert any(each.startswith("torch==") and "extra == 'torch'" in each for each in required)


@pytest.mark.slow
def test_a_study_is_planned_from_the_packaged_workflow_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    done = whichdevice(installed, tmp_path, "study", "cpu", "--dry-run", "--config", "data={source: standin}")
    assert done.returncode == 0, done.stderr
    assert "measure" in done.stdout + done.stderr


@pytest.mark.slow
def test_config_comes_from_the_package_too(installed: Path, tmp_path: Path) -> None:
    done = whichdevice(
        installed, tmp_path, "config", "--check", str(installed / "whichdevice/workflow/config/config.yaml")
    )
    assert (done.returncode, done.stderr) == (0, "")
