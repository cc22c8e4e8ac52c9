"""make names its targets, and what it runs."""

import subprocess
from pathlib import Path

import pytest


def make(project_root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=project_root, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "whichdevice study  -- \n"),
        (["ARGS=--config study=try"], "whichdevice study  -- --config study=try\n"),
        (["CONFIG=config/full.yaml"], 'whichdevice study --configfile "config/full.yaml" -- \n'),
    ],
)
def test_study_makes_the_environment_then_runs_the_study(arguments, expected, project_root) -> None:
    text = make(project_root, "--dry-run", "study", *arguments)
    assert expected in text
    assert text.index("install.sh") < text.index("whichdevice study")


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("ARGS=--config 'data={dir: x}", "ARGS has a quote without its partner: --config 'data={dir: x}"),
        ("CONFIG=nothere.yaml", "nothere.yaml: no such file; name a config file by CONFIG="),
    ],
)
def test_a_wrong_argument_is_one_line_before_anything_is_installed(argument, line, project_root) -> None:
    command = ["make", "--no-print-directory", "study", argument]
    result = subprocess.run(command, cwd=project_root, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert result.stderr.startswith(f"{line}\n")
    assert result.stdout == ""
