"""The command that forecasts a model's step on devices that are not here."""

import json
from pathlib import Path

import pytest

from whichdevice.__main__ import main
from whichdevice.commands.forecast import forecast_lines
from whichdevice.forecast.answer import answer
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.xla import compile as compiling
from whichdevice.records.products import CompiledRecord, CompileFacts, ProgramRequest

MODEL = str(Path(__file__).parents[2] / "docs/examples/my_model.py")
KEYS = set(
    [
        "device",
        "precision",
        "batch",
        "mode",
        "gpus",
        "step_seconds",
        "low_seconds",
        "high_seconds",
        "interval",
        "evidence",
        "memory_bytes",
        "memory_available_bytes",
        "memory_is_lower_bound",
        "fits",
        "largest_batch",
        "case",
        "throughput",
        "unit",
        "compile_seconds",
        "status",
        "reason",
    ]
)
WORK = {
    "platform": "gpu",
    "items": [["product", "float32", 1e9, 1e6, 100, None, 1], ["memory", "", 0.0, 1e9, 50, None, 1]],
    "unknown_loops": 0,
    "unknown_calls": 0,
}


@pytest.fixture
def asked(working_folder, monkeypatch) -> list[ProgramRequest]:
    """What the command asked for; every program compiles, but not for an L4."""
    seen: list[ProgramRequest] = []

    def compiled(requests, log=None, on_record=lambda *_: None):
        seen.extend(requests)
        facts = CompileFacts(memory=16e9, memory_available=15e9, memory_needed=2e9, unit="image", units_per_step=64)
        return [
            CompiledRecord(asked=each, status="unavailable", reason="XLA for CUDA is not installed here", code_hash="0")
            if each.device == "L4"
            else CompiledRecord(asked=each, status="ok", code_hash="0", facts=facts, work=WORK)
            for each in requests
        ]

    monkeypatch.setattr(compiling, "compile_programs", compiled)
    return seen


def test_one_device_is_one_object_with_stable_keys(asked, capsys):
    assert main(["forecast", MODEL, "--device", "V100 SXM2", "--batch", "64", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert set(row) >= KEYS
    assert (row["device"], row["precision"], row["batch"], row["mode"]) == ("V100 SXM2", "float32", 64, "train")
    assert row["low_seconds"] < row["step_seconds"] < row["high_seconds"]
    assert (row["interval"], row["evidence"], row["fits"]) == (0.8, "forecast", True)
    assert row["throughput"] == pytest.approx(64 / row["step_seconds"])
    assert row["case"]["device"] in ("known", "unknown") and row["case"]["family"] in ("known", "unknown")


def test_what_is_asked_reaches_the_compiler(asked, capsys):
    options = ["--mode", "predict", "--option", "width=64", "--sequence-length", "32", "--gpus", "8"]
    assert main(["forecast", MODEL, "--device", "t4", "--device", "a100", "--precision", "mixed", *options]) == 0
    assert [each.precision for each in asked] == ["mixed_float16", "mixed_bfloat16"]
    first = asked[0]
    assert (first.mode, first.options, first.sequence_length, first.devices) == ("predict", {"width": 64}, 32, 8)
    assert first.batch_size == 64  # the file's own
    assert "8 × T4" in capsys.readouterr().out


def test_generation_is_two_programs_of_a_device(asked, capsys):
    assert main(["forecast", "decoder", "--mode", "generate", "--device", "T4"]) == 0
    assert [each.mode for each in asked] == ["prefill", "decode"]
    text = capsys.readouterr().out
    assert text.index("the prompts of 8 sequences (prefill)") < text.index("one token of each of 8 sequences (decode)")


def test_what_is_missing_is_a_line_and_the_other_rows_stay(asked, capsys):
    assert main(["forecast", MODEL, "--device", "GTX", "--device", "L4", "--device", "T4", "--json"]) == 0
    unknown, missing, known = json.loads(capsys.readouterr().out)
    assert unknown["status"] == "unknown_device" and "nearest: " in unknown["reason"]
    assert missing["status"] == "unavailable" and missing["step_seconds"] is None
    assert known["step_seconds"] > 0


def test_an_unknown_device_is_complained_about_once(asked, capsys):
    assert main(["forecast", MODEL, "--device", "GTX"]) == 1
    text = capsys.readouterr()
    assert (text.out + text.err).count("unknown device 'GTX'") == 1 and (text.out + text.err).count("GTX'") == 1


def test_without_any_forecast_the_status_says_so(asked, capsys):
    assert main(["forecast", MODEL, "--device", "L4"]) == 1
    assert "L4: XLA for CUDA is not installed here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nothing.py"], "workload file nothing.py: not found"),
        (["resnet5"], "no built-in workload 'resnet5'"),
        ([MODEL, "--batch", "0"], "--batch 0: a number of at least 1 is needed"),
        (["resnet50", "--mode", "generate"], "resnet50: the model does not generate tokens"),
        (["matmul", "--mode", "predict"], "--mode predict: matmul is a single operation"),
        ([MODEL, "--option", "width"], "--option width: needs KEY=VALUE"),
    ],
)
def test_a_wrong_call_is_one_line(asked, capsys, arguments, error):
    assert main(["forecast", *arguments, "--device", "T4"]) == 2
    assert capsys.readouterr().err.startswith(error)


def test_by_default_ten_devices_are_forecast(asked):
    assert main(["forecast", MODEL]) == 0
    assert len(asked) == 10
    assert {find_target(each.device).kind for each in asked} == {"gpu", "tpu"}


@pytest.mark.parametrize(
    ("largest", "end"), [(None, "does not fit: try --largest"), (32, "does not fit  largest batch 32")]
)
def test_a_program_that_does_not_fit_has_no_time_and_says_so(largest, end):
    asked = ProgramRequest(device="T4", workload="m", module="mnist_cnn", precision="float32", batch_size=64)
    needs = {"memory_needed": 20e9, "memory_missing": 5e9, "largest_batch": largest}
    facts = CompileFacts(memory=16e9, memory_available=15e9, unit="image", units_per_step=64, **needs)
    record = CompiledRecord(asked=asked, status="does_not_fit", code_hash="0", facts=facts, work=WORK)
    [line] = [line for line in forecast_lines("m", [answer(record)]) if line.startswith("T4 ")]
    assert line.endswith(end) and " ms" not in line and "image/s" not in line
