"""The Python and the package that a call of the workflow works with."""

import os
import sys
from pathlib import Path

from whichdevice.errors import StudyError
from whichdevice.files import package_first


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
