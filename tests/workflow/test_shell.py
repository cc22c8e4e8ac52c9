"""What a rule hands to a shell is quoted, whatever it holds."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "rules"
SHELL = re.compile(r"^\s+shell:\n\s+(.*)\n", re.MULTILINE)


def test_every_shell_command_runs_a_script_and_quotes_each_of_its_parts() -> None:
    (body,) = re.findall(r"^def run_script(.*?)\n\n\n", (FOLDER / "study.smk").read_text(encoding="utf-8"), re.M | re.S)
    parts = re.findall(r"{{([^}\"]+)}}", body)
    assert len(parts) == 2 and all(part.endswith(":q") for part in parts)
    assert "shlex.join" in body
    commands = [line for file in FOLDER.glob("*.smk") for line in SHELL.findall(file.read_text(encoding="utf-8"))]
    assert len(commands) == 2 and all(line.startswith("run_script(") for line in commands)
