"""What a machine lacks is skipped, and each skip is listed, so that it runs once its needs are here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import PROJECT

MODULE = "from needs import require\n\nrequire('original data')\n"


@pytest.mark.slow
def test_every_module_that_is_skipped_is_listed_whatever_the_number_of_processes(tmp_path: Path) -> None:
    for name in ("test_first.py", "test_second.py"):
        (tmp_path / name).write_text(MODULE, encoding="utf-8")
    environment = {name: text for name, text in os.environ.items() if name != "WHICHDEVICE_DATA"}
    environment["PYTHONPATH"] = os.pathsep.join([str(PROJECT / "tests"), str(PROJECT / "scripts")])
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-n", "2", "--skipped", "skipped", "--rootdir", "."]
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (tmp_path / "skipped").read_text(encoding="utf-8").split() == ["test_first.py", "test_second.py"]
