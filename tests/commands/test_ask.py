"""`ask`: one table of measured and forecast steps, what they cost, and candidates only where intervals carry them."""

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic

from whichdevice.__main__ import main
from whichdevice.commands.ask import (
    _targets,
    add_arguments,
    answer_lines,
    candidates,
    make_answer,
    measure_there,
    measured_row,
    question,
    table_cells,
    table_head,
)
from whichdevice.commands.plan import merged
from whichdevice.config.load import load_study, read_study, resolved
from whichdevice.errors import StudyError
from whichdevice.machine.facts import this_machine
from whichdevice.measuring.request import planned_record
from whichdevice.records.products import CompiledRecord, CompileFacts, ProgramRequest
from whichdevice.records.schema import Record
from whichdevice.records.store import write_record
from whichdevice.study_cells import study_runs

MODEL = "docs/examples/my_model.py"
Row = dict[str, Any]


def here(step: float | None = 0.1, low: float | None = 0.09, high: float | None = 0.11, **more: Any) -> Row:
    row = {
        "device": "this machine", "evidence": "measured", "name": "a CPU", "precision": "float32", "backend": "jax",
        "batch": 100, "status": "ok", "reason": None, "step_seconds": step, "low_seconds": low, "high_seconds": high,
        "processes": 3, "cold_seconds": 4.0, "memory_bytes": 1e9, "memory_available_bytes": 8e9, "fits": True,
        "disturbed": False, "usd_per_hour": None, "epoch_examples": None, "kept_from": None, "unit": "image",
    }  # fmt: skip
    return row | more


def forecast(device: str, step: float | None, low: float | None, high: float | None, **more: Any) -> Row:
    row = {
        "device": device, "evidence": "forecast", "kind": "gpu", "accelerator": f"{device}:1", "precision": "float32",
        "status": "ok", "reason": None, "step_seconds": step, "low_seconds": low, "high_seconds": high,
        "memory_bytes": 2e9, "memory_available_bytes": 16e9, "fits": True, "disturbed": False, "usd_per_hour": 0.36,
        "largest_batch": None, "case": {"device": "known", "family": "known", "model": "convolutions", "note": ""},
    }  # fmt: skip
    return row | more


def answer(own: Row, *rows: Row, by: str = "time") -> Row:
    workloads = {"my_model": {"module": MODEL, "batch_size": 100}}
    study = resolved(load_study({"devices": {"cpu": {"kind": "cpu"}}, "workloads": workloads}))
    return make_answer(study, own, list(rows), by, lambda row: f"rent {row['kind']} {row['accelerator']}")


@pytest.fixture(autouse=True)
def _in_the_project(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project_root)


def test_rows_are_sorted_by_time_with_the_ratio_to_this_machine() -> None:
    found = answer(here(), forecast("T4", 0.02, 0.01, 0.04), forecast("L4", 0.01, 0.005, 0.02))
    assert [row["device"] for row in found["rows"]] == ["L4", "T4", "this machine"]
    ratio = found["rows"][0]
    assert ratio["ratio"] == pytest.approx(10)
    assert ratio["ratio_low"] < 5 and ratio["ratio_high"] > 20  # both intervals are in it
    assert found["rows"][2]["ratio"] is None


def test_ratios_and_costs_have_no_exponent() -> None:
    found = answer(here(), forecast("T4", 1e-5, 5e-6, 2e-5))
    assert not any("e+" in text or "e-" in text for row in table_cells(found) for text in row[5:])
    assert table_cells(found)[0][-1].startswith("× 10,000 [")


def test_a_price_has_the_name_of_who_asks_it() -> None:
    found = answer(here(), forecast("T4", 0.02, 0.01, 0.04, provider="Google Cloud"))
    assert table_cells(found)[0][table_head(found).index("USD/h")] == "0.36 Google Cloud"


def test_a_short_name_says_which_device_it_stands_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert [target.device for target in _targets("A100,T4")] == ["A100 SXM 80GB", "T4"]
    assert capsys.readouterr().err == (
        "A100: the A100 SXM 80GB is taken; also: A100 PCIe 40GB, A100 PCIe 80GB, A100 SXM 40GB\n"
    )


def test_one_process_is_no_plural() -> None:
    assert "jax, 1 process, cold" in answer_lines(answer(here(processes=1), forecast("T4", 0.02, 0.01, 0.04)))[0]


def test_cost_is_price_times_time() -> None:
    [row, _] = answer(here(), forecast("T4", 0.02, 0.01, 0.04, usd_per_hour=3.6))["rows"]
    assert row["usd_per_million"] == pytest.approx(3.6 / 3600 * 0.02 / 100 * 1e6)
    assert row["usd_per_epoch"] is None


def test_an_epoch_has_a_cost_where_the_size_of_the_data_is_known() -> None:
    found = answer(here(epoch_examples=60_000), forecast("T4", 0.02, 0.01, 0.04))
    assert found["rows"][0]["usd_per_epoch"] == pytest.approx(found["rows"][0]["usd_per_million"] * 0.06)
    assert "USD/epoch" in table_head(found)
    assert (
        "One epoch (60,000 images) on T4: 12 s and 0.0012 USD, forecast [6 s, 24 s]; data loading and validation "
        "are not in it."
    ) in found["words"]


def test_a_few_batches_are_no_epoch() -> None:
    found = answer(here(epoch_examples=900), forecast("T4", 0.02, 0.01, 0.04))
    assert found["rows"][0]["usd_per_epoch"] is None and not any("epoch" in line for line in found["words"])


def test_without_a_size_of_the_data_the_unit_of_the_cost_is_named() -> None:
    assert "USD/million images" in table_head(answer(here(), forecast("T4", 0.02, 0.01, 0.04)))


def test_the_price_of_this_machine_makes_its_cost_comparable() -> None:
    rows = forecast("T4", 0.02, 0.01, 0.04)
    assert (
        "To compare costs with this machine, name its price: --here-usd 0.10"
        in answer(here(), rows, by="cost")["words"]
    )
    found = answer(here(usd_per_hour=0.01), rows, by="cost")
    assert found["candidates"] == ["this machine"]


def test_short_steps_say_that_the_host_decides() -> None:
    [line] = [line for line in answer(here(), forecast("T4", 1e-3, 5e-4, 2e-3))["words"] if "below 5 ms" in line]
    assert "the host" in line and "T4" not in line  # all candidates
    assert not any("below 5 ms" in line for line in answer(here(), forecast("T4", 0.02, 0.01, 0.04))["words"])


def test_a_kept_measurement_has_its_time_and_a_way_to_measure_anew() -> None:
    words = answer(here(kept_from="24 November 2026, 16:09", disturbed=True), forecast("T4", 0.02, 0.01, 0.04))["words"]
    assert "This machine's time is of 24 November 2026, 16:09; --again measures anew." in words
    assert words[-1] == "Other programs disturbed the measurement here: use --again when the machine is quiet."


def test_the_way_to_measure_there_keeps_model_batch_and_number_format() -> None:
    workloads = {"my_model": {"module": MODEL, "batch_size": 256}}
    study = resolved(load_study({"devices": {"cpu": {"kind": "cpu"}}, "workloads": workloads}))
    text = measure_there(study, forecast("L4", 0.02, 0.01, 0.04, precision="mixed_bfloat16"))
    command = shlex.split(text)
    assert command[:6] == ["whichdevice", "rent", "--device", "gpu", "--accelerator", "L4:1"]
    values = merged({}, command[command.index("--config") + 1 :])
    assert values["workloads"]["my_model"] == {"module": MODEL, "batch_size": [256], "precision": ["mixed_bfloat16"]}


def test_one_candidate_needs_an_interval_of_its_own() -> None:
    found = answer(here(), forecast("T4", 0.04, 0.03, 0.05), forecast("L4", 0.01, 0.005, 0.02))
    assert found["candidates"] == ["L4"]
    assert found["words"][0] == "Candidate: L4, fastest of 3; no other interval reaches its own."
    assert "What would settle it: a measurement on L4, rent gpu L4:1" in found["words"]


def test_overlapping_intervals_are_a_set_and_not_a_winner() -> None:
    found = answer(here(), forecast("T4", 0.02, 0.01, 0.04), forecast("L4", 0.01, 0.005, 0.02))
    assert found["candidates"] == ["L4", "T4"]
    assert "Which of them is the fastest is not decided. Slower: this machine." in found["words"][0]


def test_where_everything_overlaps_nothing_is_claimed() -> None:
    found = answer(here(), forecast("T4", 0.05, 0.01, 0.2))
    assert found["words"][0] == "Every interval overlaps: which of T4 and this machine is the fastest is not decided."


def test_this_machine_may_be_the_answer() -> None:
    found = answer(here(0.001, 0.0009, 0.0011), forecast("T4", 0.02, 0.01, 0.04))
    assert found["candidates"] == ["this machine"]
    assert "this machine was measured" in found["words"][1]


def test_by_cost_only_devices_with_a_price_are_candidates() -> None:
    slow = forecast("T4", 0.02, 0.019, 0.021, usd_per_hour=0.1)
    fast = forecast("A100", 0.01, 0.009, 0.011, usd_per_hour=3.0)
    found = answer(here(), fast, slow, by="cost")
    assert found["candidates"] == ["T4"]
    assert "Without a price: this machine." in found["words"]


def test_a_model_with_a_train_step_of_its_own_is_measured_in_fit() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    (workload,) = question(parser.parse_args(["tests/models/gan.py"])).workloads.values()
    assert workload.loop == ["fit"]


def test_what_does_not_fit_is_last_and_no_candidate() -> None:
    found = answer(here(), forecast("T4", 0.001, 0.001, 0.001, fits=False), forecast("L4", 0.02, 0.01, 0.04))
    assert [row["device"] for row in found["rows"]] == ["L4", "this machine", "T4"]
    assert found["candidates"] == ["L4"]
    assert "does not fit" in table_cells(found)[-1][table_head(found).index("memory, GB")]


def test_a_batch_that_fits_nowhere_is_one_line_with_the_memory_needed() -> None:
    own = here(None, None, None, fits=False, status="refused", reason="needs 90 GB")
    with pytest.raises(
        StudyError, match=r"my_model at batch 100 fits neither here nor on 1 device asked for: it needs 2 GB"
    ):
        answer(own, forecast("T4", 0.001, 0.001, 0.001, fits=False))


def test_without_a_time_here_there_is_an_answer_without_ratios() -> None:
    found = answer(
        here(None, None, None, fits=False, status="refused", reason="too large"), forecast("T4", 0.1, 0.05, 0.2)
    )
    assert found["rows"][0]["ratio"] is None
    assert any(line == "this machine: too large" for line in answer_lines(found))


def test_a_device_unlike_what_was_tested_is_named() -> None:
    case = {"device": "unknown", "family": "known", "model": "convolutions", "note": ""}
    found = answer(here(), forecast("B200", 0.01, 0.001, 0.02, case=case))
    assert any("B200: unlike what was tested" in line for line in found["words"])


def test_a_measurement_without_an_interval_stands_for_itself() -> None:
    row = here(0.1, None, None) | {"usd_per_million": None}
    assert candidates([row], "time") == [row]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["gone.py"], "workload file gone.py: not found"),
        (
            ["docs/examples/my_mdel.py"],
            "workload file docs/examples/my_mdel.py: not found; did you mean docs/examples/my_model.py?",
        ),
        (["docs/examples/"], "workload file docs/examples: a folder; name a file in it"),
        ([MODEL, "--bach", "3"], "ask: '--bach' is not known; did you mean --batch?"),
        ([MODEL, "--here-usd", "0"], "--here-usd 0: a price above 0 is needed"),
        (["mnist_cn"], "no built-in workload 'mnist_cn'"),
        ([MODEL, "--devices", "L4,XX9"], "unknown device 'XX9'"),
        ([MODEL, "--devices", ","], "--devices: names of devices are needed"),
        ([MODEL, "--batch", "0"], "--batch 0: a number of at least 1 is needed"),
        ([MODEL, "--option", "width"], "--option width: needs KEY=VALUE"),
        (["resnet50", "--mode", "generate"], "resnet50: the model does not generate tokens"),
        (
            ["decoder", "--mode", "generate", "--backend", "torch"],
            "config: workloads.decoder.backend: mode generate",
        ),
        ([MODEL, "--html", "no/such/folder/a.html"], "--html no/such/folder/a.html: no folder"),
    ],
)
def test_wrong_input_is_one_line_before_anything_runs(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("def build_model(", "broken.py: it is no Python: '(' was never closed (line 1)"),
        ("x = 1", "broken.py: it defines no function model(options)"),
    ],
)
def test_a_file_without_a_model_is_one_line(
    content: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text(content, encoding="utf-8")
    assert main(["ask", "broken.py"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(text)


WORK = {
    "platform": "gpu",
    "items": [["product", "float32", 1e9, 1e6, 100, None, 1], ["memory", "", 0.0, 1e9, 50, None, 1]],
    "unknown_loops": 0,
    "unknown_calls": 0,
}


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Paths of the records that were measured; processes and compilers are played."""
    measured: list[Path] = []

    def measure(config: Path, path: Path, *_: Any) -> Record:
        study = read_study(config)
        (run,) = [run for run in study_runs(study) if planned_record(study, run) == str(path)]
        record = synthetic.record_of_this_code(study, run).model_copy(update={"machine": this_machine()})
        write_record(record, path)
        measured.append(path)
        return record

    def compile_programs(requests: list[ProgramRequest], **_: Any) -> list[CompiledRecord]:
        facts = CompileFacts(memory=16e9, memory_available=15e9, memory_needed=2e9, unit="image", units_per_step=8)
        return [CompiledRecord(asked=each, status="ok", code_hash="0", facts=facts, work=WORK) for each in requests]

    monkeypatch.setattr("whichdevice.measuring.measure.measure", measure)
    monkeypatch.setattr("whichdevice.forecast.xla.compile.compile_programs", compile_programs)
    monkeypatch.chdir(tmp_path)
    return measured


def test_a_second_question_measures_nothing_that_the_first_one_did(
    played: list[Path], project_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["ask", str(project_root / MODEL), "--batch", "8", "--devices", "T4,v5e"]
    assert main([*question, "--json", "--html", "answer.html"]) == 0
    rows = {row["device"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert set(rows) == {"T4", "TPU v5e (v5e-1x1)", "this machine"}
    own = rows["this machine"]
    assert (own["evidence"], own["processes"], len(played)) == ("measured", 3, 3)
    assert own["low_seconds"] < own["step_seconds"] < own["high_seconds"]
    assert "T4" in (tmp_path / "answer.html").read_text(encoding="utf-8")
    assert main(question) == 0
    assert f"{own['step_seconds'] * 1e3:.3g} ms" in capsys.readouterr().out
    assert len(played) == 3
    assert main([*question, "--again"]) == 0
    assert len(played) == 6


def test_generation_is_a_table_for_one_sequence_and_one_for_the_batch(
    played: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["ask", "decoder", "--mode", "generate", "--batch", "4", "--devices", "T4"]
    assert main([*question, "--json", "--html", "answer.html"]) == 0
    one, four = json.loads(capsys.readouterr().out)
    assert (one["batch"], four["batch"], len(played)) == (1, 4, 6)
    for row in four["rows"]:
        assert row["mode"] == "generate" and row["prefill_step_seconds"] > 0
    forecast = next(row for row in four["rows"] if row["evidence"] == "forecast")
    assert forecast["usd_per_million"] == pytest.approx(
        forecast["usd_per_hour"] / 3600 * forecast["step_seconds"] / 4 * 1e6
    )
    assert (tmp_path / "answer.html").read_text(encoding="utf-8").count("<table>") == 2
    assert main(question) == 0
    text = capsys.readouterr().out
    assert text.index("decoder: tokens at batch 1 after a prompt") < text.index("decoder: tokens at batch 4 after")
    assert "tokens/s" in text and "prefill" in text


def test_of_long_processes_two_are_enough_for_each_batch(
    played: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("whichdevice.commands.ask.LONG_SECONDS", -1.0)
    assert main(["ask", "decoder", "--mode", "generate", "--batch", "4", "--devices", "T4", "--json"]) == 0
    assert [each["batch"] for each in json.loads(capsys.readouterr().out)] == [1, 4]
    assert len(played) == 4


@pytest.mark.slow
@pytest.mark.long  # five processes with frameworks; the test above plays them
def test_a_small_model_is_measured_and_forecast_and_the_second_call_measures_nothing(
    project_root: Path, tmp_path: Path
) -> None:
    def ask(*more: str) -> SimpleNamespace:
        command = [sys.executable, "-m", "whichdevice", "ask", str(project_root / MODEL), "--batch", "8", *more]
        environment = {
            **os.environ,
            "WHICHDEVICE_LOCK_FOLDER": str(tmp_path),
            "PYTHONPATH": str(project_root / "scripts"),
        }
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)

    first = ask("--devices", "T4,v5e", "--json", "--html", "answer.html")
    assert first.code == 0, first.err
    rows = {row["device"]: row for row in json.loads(first.out)["rows"]}
    assert set(rows) == {"T4", "TPU v5e (v5e-1x1)", "this machine"}
    own = rows["this machine"]
    assert (own["evidence"], own["processes"]) == ("measured", 3)
    assert own["low_seconds"] < own["step_seconds"] < own["high_seconds"]
    assert "T4" in (tmp_path / "answer.html").read_text(encoding="utf-8")
    again = ask("--devices", "T4,v5e")
    assert again.code == 0 and "measuring" not in again.err
    assert f"{own['step_seconds'] * 1e3:.3g} ms" in again.out


def test_the_time_of_a_long_model_is_said_to_be_an_earlier_one(
    played: list[Path], project_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two processes that take long are enough, in the next call too."""
    monkeypatch.setattr("whichdevice.commands.ask.LONG_SECONDS", -1.0)
    question = ["ask", str(project_root / MODEL), "--batch", "8", "--devices", "T4", "--json"]
    kept = []
    for _ in range(2):
        assert main(question) == 0
        rows = {row["device"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
        kept.append(rows["this machine"]["kept_from"] is not None)
    assert kept == [False, True] and len(played) == 2


def test_a_model_that_ran_out_of_time_here_is_not_said_to_be_too_large() -> None:
    study = synthetic.small_study()
    record = synthetic.record_of_this_code(study, study_runs(study)[0])
    status = {"timed_out": None, "out_of_memory": False, "refused": False}
    assert {name: measured_row([record.model_copy(update={"status": name})])["fits"] for name in status} == status
