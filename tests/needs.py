"""The things that tests need beyond Python, `make` and the test environment: how each is found, how it is installed.

A test says what it needs by `@pytest.mark.needs("torch")`. `require("torch")` does the same inside a fixture, in a test
with several parameters, and at the top of a module before it imports the thing.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
APART = PROJECT / ".venv/apart"  # Snakemake's plugins for clusters: envs/extra.sh
SLURM = ("slurmctld", "slurmd", "munged", "srun", "sbatch")


def program(*names: str) -> str | None:
    """Return the path of the first of these programs that is installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    return next((place for name in names if (place := shutil.which(name, path=path))), None)


def package(name: str) -> bool:
    """Return whether a Python package can be imported."""
    parent, _, _ = name.rpartition(".")
    return (not parent or package(parent)) and find_spec(name) is not None


def may_mount() -> bool:
    """Return whether this user may mount file systems."""
    programs = program("unshare") and program("mount")
    return bool(programs) and not subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode


BROWSER = program("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Need:
    """One thing that tests need."""

    name: str
    install: str
    is_here: Callable[[], bool]


def with_pip(title: str, module: str, distribution: str = "") -> Need:
    """Return the need of a package that no lock holds."""
    return Need(title, f".venv/bin/python -m pip install {distribution or module}", lambda: package(module))


SLURM_PLUGIN = "sh envs/extra.sh slurm --apart"
NEEDS = {
    "torch": Need("PyTorch", "make torch-cpu", lambda: package("torch")),
    "equinox": with_pip("Equinox", "equinox"),
    "accelerate": with_pip("Accelerate", "accelerate"),
    "diffusers": with_pip("diffusers", "diffusers"),
    "lightning": with_pip("Lightning", "lightning"),
    "hub client": with_pip("the client of Hugging Face's hub", "huggingface_hub"),
    "scikit-learn": with_pip("scikit-learn", "sklearn", "scikit-learn"),
    "torch geometric": with_pip("PyTorch Geometric", "torch_geometric"),
    "slurm": Need("Slurm", "apt-get install slurm-wlm munge", lambda: all(map(program, SLURM))),
    "slurm plugin": Need("the executor for Slurm", SLURM_PLUGIN, (APART / "slurm").is_dir),
    "kubernetes": Need(
        "the executor for Kubernetes", "sh envs/extra.sh kubernetes --apart", (APART / "kubernetes").is_dir
    ),
    "browser": Need("a browser", "apt-get install chromium", lambda: BROWSER is not None),
    "git": Need("git", "apt-get install git", lambda: bool(program("git"))),
    "linux": Need("Linux", "run them there", lambda: sys.platform == "linux"),
    "mounts": Need("mounts", "run them as root on Linux", may_mount),
    "memory groups": Need(
        "control groups of version 1",
        "run them as root on such a Linux",
        lambda: os.access("/sys/fs/cgroup/memory", os.W_OK),
    ),
}


@cache
def reason(name: str) -> str | None:
    """Return why a test that needs this thing is skipped, or None where it is here."""
    need = NEEDS[name]
    return None if need.is_here() else f"need {need.name}: {need.install}"


def require(*names: str) -> None:
    """Skip the test or module that calls this unless all things are here.

    The caller is the place of the skip: of modules that are skipped at one place, pytest-xdist lists the first alone.
    """
    __tracebackhide__ = True
    for name in names:
        if missing := reason(name):
            pytest.skip(missing, allow_module_level=True)
