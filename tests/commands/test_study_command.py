"""`study`: what is wrong is one line before Snakemake starts."""

import os
from pathlib import Path

import pytest

from whichdevice.__main__ import main
from whichdevice.apps.commands import study


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Commands that took this process's place."""
    calls: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.execv", lambda program, command: calls.append(command))
    return calls


def test_the_packaged_workflow_runs_in_this_folder(started: list[list[str]]) -> None:
    assert main(["study"]) == 0
    [command] = started
    assert command[3:6] == ["all", "--cores", "all"]
    assert Path(command[command.index("--snakefile") + 1]).is_file()
    assert "--configfile" not in command


def test_targets_config_and_what_follows_two_dashes_go_to_snakemake(started: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("study: mine\n", encoding="utf-8")
    call = ["study", "cpu", "--configfile", "my.yaml", "--config", "seed=2", "-n", "--", "--forcerun", "measure"]
    assert main(call) == 0
    rest = started[0][started[0].index("--configfile") :]
    assert rest == ["--configfile", "my.yaml", "--config", "seed=2", "--dry-run", "--forcerun", "measure"]


def test_where_the_home_folder_takes_no_cache_this_one_does(started, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", "/proc/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert main(["study"]) == 0
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / ".snakemake" / "cache")


def test_records_of_other_machines_are_keys_of_the_config(started: list[list[str]]) -> None:
    call = ["study", "--records", "gs://bucket/box", "--records", "other", "--rename", "gpu=a100", "--config", "seed=2"]
    assert main(call) == 0
    command = started[0]
    keys = command[command.index("--config") + 1 :]
    assert keys == ["seed=2", 'records=["gs://bucket/box", "other"]', 'rename={"gpu": "a100"}']


def test_targets_are_the_rules_without_wildcards() -> None:
    assert {"all", "cpu", "gpu", "tpu", "runs", "tables", "figures", "report"} <= set(study.targets())
    assert "measure" not in study.targets()
