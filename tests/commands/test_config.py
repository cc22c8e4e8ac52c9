"""`python -m whichdevice config`: print, check and write configs."""

from pathlib import Path

import pytest
import synthetic

from whichdevice.__main__ import main
from whichdevice.base.files import CONFIG
from whichdevice.study.config.load import load_study
from whichdevice.study.remote.records import bring_records


@pytest.mark.parametrize("name", ["full", "published"])
def test_another_study_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", f"--{name}"]) == 0
    assert capsys.readouterr().out == (CONFIG / f"{name}.yaml").read_text(encoding="utf-8")


def test_a_right_file_passes_in_silence(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("my.yaml").write_text("study: try\n", encoding="utf-8")
    assert main(["config", "--check", "my.yaml"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_device_that_is_not_here_is_no_fault_of_the_file(working_folder, capsys) -> None:
    Path("my.yaml").write_text("run_on: [gpu]\n", encoding="utf-8")
    assert main(["config", "--check", "my.yaml"]) == 0
    assert capsys.readouterr() == ("", "")


def test_devices_may_come_with_merged_records(working_folder: Path) -> None:
    text = "study: small\ndevices: {cpu: {kind: cpu}}\nworkloads: {matmul: {precision: tf32}}\n"
    Path("my.yaml").write_text(text, encoding="utf-8")
    assert main(["config", "--check", "my.yaml"]) == 2
    synthetic.write_study(synthetic.small_study(), Path("other"), devices=["gpu"])
    bring_records(load_study({"study": "small", "records": "other"}))
    assert main(["config", "--check", "my.yaml"]) == 0


def test_without_a_command_three_examples_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.count("\n  whichdevice ask ") == 3
