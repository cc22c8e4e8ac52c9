"""What a machine lacks is skipped, with one line on what to install; one that should have it fails."""

import os
import subprocess
import sys

import pytest
from needs import PROJECT

MODULE = """
import needs

needs.NEEDS["moon"] = needs.Need("the moon", "fly there", lambda: False)
needs.require("moon")
"""


@pytest.mark.parametrize(("may_lack", "code"), [("PyTorch,the moon", 0), ("PyTorch", 1)])
def test_a_need_that_is_not_met_is_listed_and_fails_where_it_should_be(tmp_path, may_lack, code) -> None:
    for name in ("test_first.py", "test_second.py"):
        (tmp_path / name).write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_third.py").write_text("def test_it():\n    pass\n", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT / "tests"), str(PROJECT / "scripts")])}
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-n", "2", "--may-lack", may_lack, "--rootdir", "."]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "   2 need the moon: fly there\n" in done.stdout
    assert done.returncode == code
