"""Run files of cases in a process of their own, which has Keras on another backend than that of the tests."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from backends.scenario import PATH, ROOT


def run_cases(variables: Mapping[str, str], which: str, *files: str) -> None:
    """Run the cases that the marks `which` choose, in files named from tests/; fails with what pytest prints."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", which, "-p", "no:cacheprovider"]
    command += [str(Path(ROOT, "tests", file)) for file in files]
    environment = {**os.environ, **variables, "PYTHONPATH": PATH}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
