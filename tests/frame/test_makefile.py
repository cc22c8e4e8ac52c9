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
        ([], "snakemake --cores 1 all  \n"),
        (["ARGS=--config study=try"], "snakemake --cores 1 all  --config study=try\n"),
        (["CONFIG=my own.yaml"], 'snakemake --cores 1 all --configfile "my own.yaml" \n'),
    ],
)
def test_study_makes_the_environment_then_runs_snakemake(
    arguments: list[str], expected: str, project_root: Path
) -> None:
    text = make(project_root, "--dry-run", "study", *arguments)
    assert expected in text
    assert text.index("install.sh") < text.index("snakemake")


def test_a_config_file_is_checked_before_snakemake_reads_it(project_root: Path) -> None:
    text = make(project_root, "--dry-run", "study", "CONFIG=my.yaml")
    assert text.index('config --check "my.yaml"') < text.index("snakemake")


def test_a_stray_quote_in_arguments_is_one_line_before_anything_is_installed(project_root: Path) -> None:
    command = ["make", "--no-print-directory", "study", "ARGS=--config 'data={dir: x}"]
    result = subprocess.run(command, cwd=project_root, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert result.stderr.startswith("ARGS has a quote without its partner: --config 'data={dir: x}\n")
    assert result.stdout == ""
