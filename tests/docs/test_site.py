"""The site builds without a warning; links of pages are tested faster in test_pages.py."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path, project_root: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-n", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "cache"), "docs", str(tmp_path / "site")],
        cwd=project_root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    for page in ("index", "start/first-answer", "reference/config", "results/index"):
        assert (tmp_path / "site" / f"{page}.html").is_file()
