"""Describe the machine, the code and the libraries of a run for its record: no host name, user name or path."""

import os
import platform
import subprocess
from pathlib import Path

import whichdevice
from whichdevice.base.cpu import cpu_model, last_level_cache, physical_cores, usable_cores
from whichdevice.base.identity import installed_versions, machine_identity
from whichdevice.base.memory import total_memory
from whichdevice.measure.machine import devices
from whichdevice.measure.record import Machine, Software

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


def describe_machine(kind: str, threads: int | None = None) -> Machine:
    """The host and its devices of one kind; `threads` is what the framework was given."""
    facts = devices.kind(kind).describe()
    return Machine(
        device_name=facts.name,
        device_count=facts.count,
        cpu=cpu_model(),
        cores=usable_cores(),
        physical_cores=physical_cores(),
        threads=threads,
        memory=total_memory(),
        last_level_cache=last_level_cache(),
        operating_system=operating_system(),
        driver=facts.driver,
        device_memory=facts.memory if kind != "cpu" else None,  # a CPU's is the host's
        device_memory_free=facts.free_memory,
        identity=machine_identity(),
    )


def this_machine() -> Machine:
    """Return what tells this machine from others, and nothing of its devices."""
    return Machine(
        cpu=cpu_model(),
        memory=total_memory(),
        operating_system=operating_system(),
        identity=machine_identity(),
    )


def operating_system() -> str:
    """Distribution and kernel, e.g. `Debian GNU/Linux 12 (bookworm), Linux 6.1.0`, or `macOS 15.1`."""
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    kernel = f"{platform.system()} {platform.release()}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except (OSError, KeyError):
        return kernel


def describe_software(backend: str) -> Software:
    """Versions of the installed libraries that a run with this backend uses, Python's and the project's own.

    `code_hash` and `flags` are left to the caller.
    """
    packages = {"whichdevice": whichdevice.__version__}
    versions = packages | installed_versions((*COMMON, *OF_BACKEND.get(backend, ()), *CUDA))
    return Software(python=platform.python_version(), versions=versions, git_commit=git_commit())


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
