"""Processes of ours import this very package: their environment may have been made in another checkout."""

import os
from pathlib import Path

VARIABLE = "PYTHONPATH"


def package_first() -> dict[str, str]:
    """PYTHONPATH with the folder of this package in front of what it held."""
    scripts = str(Path(__file__).parents[1])
    return {VARIABLE: os.pathsep.join(filter(None, [scripts, os.environ.get(VARIABLE)]))}
