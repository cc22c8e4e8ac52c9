"""`study`: what is wrong is one line before Snakemake starts."""

from pathlib import Path

import pytest
import synthetic

from whichdevice.__main__ import main
from whichdevice.apps.commands import study
from whichdevice.study.config.model import Device
from whichdevice.study.records.store import merged_sources, write_record
from whichdevice.study.study_cells import study_runs


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
    assert command[3:6] == ["all", "--cores", "1"]
    assert Path(command[command.index("--snakefile") + 1]).is_file()
    assert "--configfile" not in command


def test_targets_config_and_what_follows_two_dashes_go_to_snakemake(started: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("study: mine\n", encoding="utf-8")
    call = ["study", "cpu", "--configfile", "my.yaml", "--config", "seed=2", "-n", "--", "--forcerun", "measure"]
    assert main(call) == 0
    rest = started[0][started[0].index("--configfile") :]
    assert rest == ["--configfile", "my.yaml", "--config", "seed=2", "--dry-run", "--forcerun", "measure"]


def test_records_of_another_machine_are_merged_before_it_starts(started: list[list[str]], tmp_path: Path) -> None:
    study_of_both = synthetic.small_study(devices={"xeon": Device(kind="cpu")})
    run = study_runs(study_of_both)[0]
    write_record(synthetic.record_of(study_of_both, run), tmp_path / "other" / "runs" / run.path / "record.json")
    assert main(["study", "--with", "other"]) == 0
    assert len(started) == 1
    [source] = merged_sources(Path("results/quick")).values()
    assert list(source.devices) == ["xeon"] and source.devices["xeon"].elsewhere


def test_a_source_that_is_not_there_is_one_line(started: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "--with", "results/nowhere"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "results/nowhere" in line
    assert started == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["cpuu"], "no target cpuu; did you mean cpu?"),
        (["--configfile", "gone.yaml"], "gone.yaml: cannot be read: No such file or directory"),
        (["--config", "data={source: 'standin}"], "--config data={source: 'standin}: found unexpected end of stream"),
        (["--config", "seed"], "--config seed: needs KEY=VALUE"),
    ],
)
def test_a_slip_is_one_line(
    arguments: list[str], text: str, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(text)
    assert started == []


def test_a_tab_in_yaml_has_its_line(
    started: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.yaml").write_text("measure:\n\tseconds: 1\n", encoding="utf-8")
    assert main(["study", "--configfile", "my.yaml"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("my.yaml, line 2: a tab is where YAML needs spaces")


def test_targets_are_the_rules_without_wildcards() -> None:
    assert {"all", "cpu", "gpu", "tpu", "runs", "tables", "figures", "report", "compare"} <= set(study.targets())
    assert "measure" not in study.targets()


def test_other_commands_take_nothing_after_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--", "--forcerun"]) == 2
    assert capsys.readouterr().err == "plan: takes nothing after --\n"
