"""Which environment a run needs, whether this one has it, and the one that a call's jobs work in."""

import os
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from whichdevice.backends import backend_class
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.files import package_first


def environment_of(kind: str, backend: str) -> str:
    """The name in envs/ that a run needs: PyTorch has its own, JAX on a TPU the ordinary one."""
    return "torch" if backend == "torch" else "cpu" if (kind, backend) == ("tpu", "jax") else kind


def missing_packages(study: Study) -> dict[tuple[str, str], str]:
    """For each kind of device and backend that this environment cannot run: why, and what to do.

    A framework is installed or not; whether it was built for the kind is known where envs/install.sh installed it.
    """
    made = {path.name.removeprefix(".installed-") for path in Path(sys.prefix).glob(".installed-*")}
    kinds = {device.kind for device in study.devices.values()}
    backends = {backend for workload in study.workloads.values() for backend in workload.backend}
    missing: dict[tuple[str, str], str] = {}
    for kind, backend in product(sorted(kinds), sorted(backends)):
        needed = environment_of(kind, backend)
        how = f"make study ENV={needed} (docs/devices.md, Environments)"
        if find_spec(backend_class(backend).package) is None:
            missing[kind, backend] = f"{backend} is not installed in this environment: {how}"
        elif kind != "cpu" and made and needed not in made | ({"cpu"} if "test" in made else set()):
            missing[kind, backend] = f"{backend} in this environment has no support for {kind}: {how}"
    return missing


def prefer_this_environment() -> None:
    """Put this interpreter's folder first on PATH and this package first on PYTHONPATH, for the jobs of the rules.

    An environment that `--sdm conda` activates comes in front of it later.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ.update(package_first())


def require_writable(folder: Path) -> None:
    """Raise StudyError where nothing can be written to `folder`: Snakemake itself keeps notes there."""
    if not os.access(folder, os.W_OK):
        raise StudyError(
            f"cannot write to {folder}, where results/ and Snakemake's notes go: "
            "run it in a folder of yours (snakemake --directory DIR); `python -m whichdevice plan` needs none"
        )
