"""What a rule hands to a shell is quoted, whatever it holds."""

import re
from pathlib import Path

import pytest

RULES = sorted(Path(__file__).parents[2].glob("rules/*.smk"))
COMMAND = re.compile(r"^\s+shell:\n((?:\s+[frb]*\".*\"\n)+)", re.MULTILINE)


@pytest.mark.parametrize("file", RULES, ids=lambda file: file.name)
def test_every_part_of_a_shell_command_is_quoted(file):
    text = file.read_text(encoding="utf-8")
    commands = COMMAND.findall(text)
    assert len(commands) == len(re.findall(r"^\s+shell:", text, re.MULTILINE))
    for command in commands:
        assert re.findall(r"{([^}]*)}", command)
        assert [part for part in re.findall(r"{([^}]*)}", command) if not part.endswith(":q")] == []


def test_there_are_such_commands():
    assert sum(len(COMMAND.findall(file.read_text(encoding="utf-8"))) for file in RULES) == 3
