"""The folder that a call of the workflow works in."""

import os
from pathlib import Path

from whichdevice.errors import StudyError


def require_writable(folder: Path) -> None:
    """Raise StudyError where nothing can be written to `folder`; Snakemake itself would end in a traceback."""
    if not os.access(folder, os.W_OK):
        raise StudyError(
            f"cannot write to {folder}, where results/ and Snakemake's notes go: "
            "run it in a folder of yours (snakemake --directory DIR)"
        )
