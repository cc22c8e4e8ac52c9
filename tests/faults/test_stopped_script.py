"""A script that is stopped ends where it is: nothing that it has for its end runs."""

import subprocess
import sys

SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("data")
try:
    parser.parse_args()
except BaseException:
    open("saved_by_except", "w").close()
finally:
    open("saved_finally", "w").close()
"""
RUN = """
from pathlib import Path
from whichdevice.models.script.run import ScriptRun
ScriptRun(Path("train.py")).result([])
"""


def test_a_script_that_is_stopped_runs_no_block_of_its_end(tmp_path, project_root) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=tmp_path, env={"PYTHONPATH": str(project_root / "scripts")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "train.py: ended before its training: the following arguments are required: data" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
