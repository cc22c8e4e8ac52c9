"""The command `merge`: sources in, listed and out again."""

import argparse
from pathlib import Path

import pytest
import synthetic
import yaml

from whichdevice.apps.commands import merge
from whichdevice.base.errors import StudyError


@pytest.fixture
def other(working_folder: Path) -> str:
    """Results of another machine, and a config here."""
    synthetic.write_study(synthetic.small_study(), Path("other"), devices=["gpu"])
    Path("config").mkdir()
    Path("config/config.yaml").write_text(yaml.safe_dump(synthetic.SMALL))
    return "other"


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    merge.add_arguments(parser)
    return merge.run(parser.parse_args(words))


def test_a_source_is_merged_listed_and_dropped(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    call(other, "--rename", "gpu=a100")
    assert "4 records of a100 (gpu there)" in capsys.readouterr().out
    call("--list")
    line = capsys.readouterr().out.strip()
    assert ": 4 records of a100 (gpu there, " in line and other not in line
    call("--drop", line.partition(":")[0])
    call("--list")
    assert capsys.readouterr().out.splitlines() == [f"dropped {line.partition(':')[0]}"]


def test_records_go_to_the_study_that_is_named(other: str) -> None:
    Path("my.yaml").write_text(yaml.safe_dump({**synthetic.SMALL, "study": "mine"}))
    call(other, "--configfile", "my.yaml")
    assert list(Path("results/mine/merged").rglob("record.json")) and not Path("results/small").exists()
    Path("results/mine/config.yaml").write_text(Path("my.yaml").read_text())
    call("--study", "mine", "--list")
    with pytest.raises(StudyError, match=r"results/nobody/config\.yaml"):
        call("--study", "nobody", "--list")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "merge: name a source, or --list, or --drop ID"),
        (["other", "--list"], "merge: name a source, or --list, or --drop ID"),
        (["other", "--rename", "gpu"], r"--rename gpu: needs THERE=HERE"),
        (["other", "--rename", "gpu=../x"], r"--rename gpu=\.\./x: needs THERE=HERE"),
    ],
)
def test_a_wrong_call_is_one_line(other: str, words: list[str], line: str) -> None:
    with pytest.raises(StudyError, match=line):
        call(*words)
