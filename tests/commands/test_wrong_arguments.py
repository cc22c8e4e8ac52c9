"""A slip in a command's arguments is one line that names it, before anything runs: the rows of wrong_arguments.yaml."""

import shlex

import pytest
from beside import beside

from whichdevice.__main__ import main

ROWS = beside(__file__)


@pytest.mark.parametrize(("command", "line"), ROWS, ids=[command for command, _ in ROWS])
def test_a_slip_is_one_line_that_names_it(command, line, project_root, tmp_path, capsys, monkeypatch) -> None:
    for folder in ("docs", "envs"):
        (tmp_path / folder).symlink_to(project_root / folder)
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert line in said
    assert {path.name for path in tmp_path.iterdir()} == {"docs", "envs"}
