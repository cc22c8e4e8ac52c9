"""Which Python the workflow's shell commands call."""

import os
import sys
from pathlib import Path


def prefer_this_python() -> None:
    """Put this interpreter's folder first on PATH, so that `python` is the one that runs Snakemake.

    An environment that `--sdm conda` activates comes in front of it later.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
