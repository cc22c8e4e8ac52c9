"""Which Python, and which checkout's package, the workflow's jobs take."""

import os
import sys
from pathlib import Path

from whichdevice.package_path import package_first


def prefer_this_python() -> None:
    """Put this interpreter's folder first on PATH, so that `python` is the one that runs Snakemake.

    An environment that `--sdm conda` activates comes in front of it later.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def prefer_this_package() -> None:
    """Put the folder of this package first on PYTHONPATH, for the scripts of the rules."""
    os.environ.update(package_first())
