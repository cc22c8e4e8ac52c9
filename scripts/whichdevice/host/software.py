"""Which code and which libraries a run uses, without importing any of them."""

import os
import platform
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import whichdevice
from whichdevice.records.facts import Software

SCRIPTS = Path(whichdevice.__file__).parents[1]
GIT_PATIENCE = 2.0  # seconds; a network file system may make git slow
COMMON = ("numpy", "keras", "snakemake")
# TensorFlow comes under several names; NVIDIA's libraries are named by CUDA generation.
OF_BACKEND = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "tensorflow-macos", "tf-nightly"),
    "jax": ("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda13-plugin"),
    "torch": ("torch", "torch-xla", "triton"),
}
CUDA = ("nvidia-cudnn-cu12", "nvidia-cublas-cu12", "nvidia-nccl-cu12", "nvidia-cudnn-cu13", "nvidia-cublas")


def describe_software(backend: str) -> Software:
    """Versions of the installed libraries that a run with this backend uses, Python's and the project's own.

    `code_hash` and `flags` are left to the caller.
    """
    own = {"whichdevice": whichdevice.__version__}
    versions = own | installed_versions((*COMMON, *OF_BACKEND.get(backend, ()), *CUDA))
    return Software(python=platform.python_version(), versions=versions, git_commit=git_commit())


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Of these distributions, as far as they are installed here."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def git_commit(folder: Path = SCRIPTS) -> str | None:
    """The project's commit, with `+modified` if the files in `folder` differ from it; None without git.

    A copy of the project that merely lies inside some other repository is not tracked there: None too.
    """
    if _git(folder, "ls-files", "--error-unmatch", "--", "whichdevice/__init__.py") is None:
        return None
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--", ".")
    return f"{commit}+modified" if commit and changes else commit


def _git(folder: Path, *arguments: str) -> str | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # status then writes nothing
    try:
        return subprocess.run(
            ("git", "-C", str(folder), *arguments),
            capture_output=True,
            text=True,
            timeout=GIT_PATIENCE,
            check=True,
            env=environment,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
