"""Where this package and the workflow's own files are, in a checkout and in an installed wheel."""

import os
from pathlib import Path

VARIABLE = "PYTHONPATH"
HERE = Path(__file__).parent
INSTALLED = HERE / "workflow"  # Snakefile, rules, scripts, profiles, config and examples in a wheel: hatch_build.py
WORKFLOW = INSTALLED if INSTALLED.is_dir() else HERE.parents[1]
CONFIG = WORKFLOW / "config"


def package_first() -> dict[str, str]:
    """PYTHONPATH with the folder of this package in front of what it held.

    Processes of ours import this very package: their environment may have been made in another checkout.
    """
    return {VARIABLE: os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get(VARIABLE)]))}
