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


def test_a_device_that_is_not_here_is_no_fault_of_the_file(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("my.yaml").write_text("run_on: [gpu]\n", encoding="utf-8")
    assert main(["config", "--check", "my.yaml"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_wrong_file_is_one_line_on_stderr(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("my.yaml").write_text("sede: 1\n", encoding="utf-8")
    assert main(["config", "--check", "my.yaml"]) == 2
    assert capsys.readouterr() == ("", "my.yaml: sede is not a key; did you mean seed?\n")


REFUSED = {
    "devices: {gpu: {kind: gpu, hardware: H1000}}": "devices.gpu.hardware: H1000 is not in config/hardware.csv",
    "forecast: {devices: v9-2x2}": "forecast.devices: unknown device 'v9-2x2'",
    "data: {sources: {minst: files}}": "data.sources: no dataset minst; did you mean mnist",
    "devices: {g: {kind: gpu, replicas: 3}}\nworkloads: {mnist_cnn: {batch_size: 256}}": "workloads.mnist_cnn."
    "batch_size: 256 examples cannot be divided over the 3 replicas",
    "devices: {cpu: {kind: cpu}}\nworkloads: {matmul: {precision: tf32}}": "workloads.matmul: no device of this study",
    "workloads: {matmul: {export: true}}": "workloads.matmul.export: it learns nothing",
    "workloads: {matmul: {mode: predict}}": "workloads.matmul.mode: matmul is a single operation and predicts nothing",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_study_would_refuse_does_not_pass(
    working_folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    Path("my.yaml").write_text(text, encoding="utf-8")
    assert main(["config", "--check", "my.yaml"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"my.yaml: {REFUSED[text]}")
    assert (out, err.count("\n")) == ("", 1)


def test_devices_may_come_with_merged_records(working_folder: Path) -> None:
    text = "study: small\ndevices: {cpu: {kind: cpu}}\nworkloads: {matmul: {precision: tf32}}\n"
    Path("my.yaml").write_text(text, encoding="utf-8")
    assert main(["config", "--check", "my.yaml"]) == 2
    synthetic.write_study(synthetic.small_study(), Path("other"), devices=["gpu"])
    bring_records(load_study({"study": "small", "records": "other"}))
    assert main(["config", "--check", "my.yaml"]) == 0


def test_an_absent_folder_is_one_line(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--write", "nowhere"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_a_command_three_examples_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.count("\n  whichdevice ask ") == 3


def test_an_unknown_command_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nosuch"]) == 2
    assert "no command 'nosuch'" in capsys.readouterr().err
