"""The wheel: the workflow travels with the package, and its requirements are those of envs/*.in."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from whichdevice.__main__ import command_names


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
    assert {"whichdevice/forecast/constants.json", "whichdevice/models/llm_models.csv"} <= names


EXTRAS = ("gpu", "jax", "study", "torch", "tpu")


def test_its_requirements_are_those_of_the_environments(wheel: Path, project_root: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    lines = archive.read(name).decode().partition("\n\n")[0].splitlines()
    required = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    base = {each.partition(";")[0].strip() for each in required if "extra ==" not in each}
    asked = (project_root / "envs" / "base.in").read_text(encoding="utf-8").splitlines()
    assert base == {line.partition("#")[0].strip() for line in asked if not line.startswith("#")}
    assert [line for line in lines if line.startswith("Provides-Extra: ")] == [f"Provides-Extra: {n}" for n in EXTRAS]
    of_extra = {name: " ".join(each for each in required if f"extra == '{name}'" in each) for name in EXTRAS}
    assert "torch==" in of_extra["torch"] and "tensorflow" not in of_extra["torch"] + of_extra["jax"]
    assert "jax==" in of_extra["jax"] and "tensorflow==" in of_extra["study"]


SMALL = ["--config", "workloads={matmul: {batch_size: [64]}}", "devices={cpu: {kind: cpu}}", "forecast={devices: []}"]
# A cheap call of each command: exit status, and what it prints.
CALLS = {
    "ask": (["nothing.py"], 2, "nothing.py"),
    "config": ([], 0, "study: quick"),
    "deploy": (["matmul", "--dry-run", *SMALL], 2, "storage.bucket is empty"),
    "explorer": (["--model", "resnet5O"], 2, "no model"),
    "plan": (SMALL, 0, "matmul"),
    "prices": (["T4"], 0, "T4"),
    "rent": (["--on", "L4", "--dry-run"], 2, "no checkout of whichdevice"),
    "serve": (["nothing"], 2, "nothing"),
    "study": (["cpu", "--dry-run", *SMALL], 0, "measure"),
}


def test_each_command_has_a_cheap_call() -> None:
    assert set(CALLS) == set(command_names())


@pytest.mark.slow
@pytest.mark.parametrize("command", CALLS)
def test_each_command_runs_in_an_empty_folder(installed: Path, tmp_path: Path, command: str) -> None:
    arguments, status, text = CALLS[command]
    done = whichdevice(installed, tmp_path, command, *arguments)
    printed = done.stdout + done.stderr
    assert (done.returncode, "Traceback" in printed) == (status, False), printed
    assert text in printed


def test_deploy_finds_the_prices_of_the_package(installed: Path, tmp_path: Path) -> None:
    code = "from whichdevice.apps.commands.deploy import price_line; print(price_line('e2-standard-2', 'us-central1'))"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.startswith("Price: about 0.077 USD an hour"), done.stderr
