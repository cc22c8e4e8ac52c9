"""Locks pin every package with hashes and no index address; the conda environments hold the same pins."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement

LOCKS = ["uv", "cpu", "gpu", "torch", "jax-tpu", "tpu", "test", "sky"]
EXTRAS = ["cloud", "kubernetes", "slurm"]


@pytest.fixture(scope="module")
def conda(project_root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("conda_environments", project_root / "envs" / "conda.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [*LOCKS, *EXTRAS])
def test_every_pin_is_exact_and_hashed(name: str, project_root: Path) -> None:
    text = (project_root / "envs" / f"{name}.lock").read_text(encoding="utf-8")
    pins = re.split(r"\n(?! )", text.strip())
    assert len(pins) > (0 if name == "uv" else 1 if name in EXTRAS else 100)
    for pin in pins:
        assert re.match(r"^[a-z0-9-]+(\[[a-z-]+\])?==\S+ ", pin), pin
        assert "--hash=sha256:" in pin, pin


@pytest.mark.parametrize("name", [*LOCKS, *EXTRAS])
def test_no_lock_names_an_index(name: str, project_root: Path) -> None:
    for suffix in ("in", "lock"):
        text = (project_root / "envs" / f"{name}.{suffix}").read_text(encoding="utf-8")
        assert not re.search(r"://|--(extra-)?index|--find-links", text)


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_answers_its_requirements(name: str, project_root: Path, conda: ModuleType) -> None:
    pinned = {Requirement(pin).name for pin in conda.pins(name)}
    for line in _requirements(project_root / "envs" / f"{name}.in"):
        assert Requirement(line).name.lower() in pinned, f"{line}: run `make lock`"


def test_what_gpu_and_test_share_with_cpu_has_the_same_version(conda: ModuleType) -> None:
    for name in ("gpu", "test", "jax-tpu"):
        assert _versions(conda, "cpu").items() <= _versions(conda, name).items()


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_holds_what_it_adds_and_changes_no_ordinary_pin(name, project_root, conda) -> None:
    added = _versions(conda, name)
    for wanted in _requirements(project_root / "envs" / f"{name}.in"):
        assert Requirement(wanted).name.lower() in added, f"{wanted}: run `make lock`"
    for kind in ("cpu", "gpu", "torch"):
        ordinary = _versions(conda, kind)
        assert added.items() & ordinary.items() == {pin for pin in added.items() if pin[0] in ordinary}


@pytest.mark.parametrize("kind", ["cpu", "gpu", "torch", "jax-tpu", "tpu"])
def test_conda_environments_have_not_drifted(kind: str, project_root: Path, conda: ModuleType) -> None:
    written = (project_root / "envs" / f"{kind}.yaml").read_text(encoding="utf-8")
    assert written == conda.environment(kind), "run `make lock`"
    python, pip, packages = yaml.safe_load(written)["dependencies"]
    assert (python, pip, packages["pip"]) == ("python=3.11", "pip", conda.pins(kind))


def _versions(conda: ModuleType, name: str) -> dict[str, str]:
    """Every package of a lock; several versions, one a platform, are one text."""
    versions: dict[str, str] = {}
    for pin in conda.pins(name):
        package, version = pin.partition(" ;")[0].split("==")
        versions[package] = f"{versions[package]}, {version}" if package in versions else version
    return versions


def _requirements(path: Path) -> list[str]:
    lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    nested = [_requirements(path.parent / line.split()[1]) for line in lines if line.startswith("-r")]
    return [line for line in lines if line and not line.startswith("-")] + [line for part in nested for line in part]


@pytest.mark.parametrize("script", ["packages.sh", "Containerfile"])
def test_a_lock_is_its_own_constraint(script: str, project_root: Path) -> None:
    """Without it, pip before 23.3 takes the newest release of a package that another one asks for with an extra."""
    text = (project_root / "envs" / script).read_text(encoding="utf-8").replace("\\\n", " ")
    installs = [
        line
        for line in re.split(r"\n|&&|\|\|", text)
        if "-m pip install" in line and "--no-deps" not in line and "uv.lock" not in line
    ]
    assert installs
    for line in installs:
        assert re.search(r"-r (\S+) -c \1", line), line
