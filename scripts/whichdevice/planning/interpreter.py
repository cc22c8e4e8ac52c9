"""Which Python, and which checkout's package, the workflow's jobs take."""

import os
import sys
from pathlib import Path


def prefer_this_python() -> None:
    """Put this interpreter's folder first on PATH, so that `python` is the one that runs Snakemake.

    An environment that `--sdm conda` activates comes in front of it later.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def prefer_this_package() -> None:
    """Put the folder of this package first on PYTHONPATH: an environment may have been made in another checkout."""
    scripts = str(Path(__file__).parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [scripts, os.environ.get("PYTHONPATH")]))
