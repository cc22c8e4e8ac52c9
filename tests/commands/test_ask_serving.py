"""`ask --mode serve`: which machine answers so many requests a second of a language model in time."""

import json
import re
from pathlib import Path

import pytest
from needs import require

import whichdevice as wd
from whichdevice.__main__ import main
from whichdevice.apps.questions.serving import price_of
from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide.serving_words import as_json

LLAMA = "hf:meta-llama/Llama-3.1-8B-Instruct"
FEW = ("--no-measuring", "--devices", "L40S,H100 SXM", "--gpus", "1,2")


@pytest.fixture(autouse=True)
def _no_other_prices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def asked(*options: str, model: str = LLAMA) -> int:
    return main(["ask", model, "--mode", "serve", *options])


def plain(capsys: pytest.CaptureFixture[str], *options: str, model: str = LLAMA) -> dict:
    assert asked(*options, "--json", model=model) == 0
    return json.loads(capsys.readouterr().out)


def error(capsys: pytest.CaptureFixture[str], *options: str, model: str = LLAMA) -> str:
    assert asked(*options, model=model) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_the_first_line_says_what_to_rent_what_it_costs_and_how_sure_it_holds_the_targets(capsys):
    assert asked("--rps", "5", "--ttft", "1s", "--tpot", "50ms", *FEW) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Llama-3.1-8B-Instruct · bf16 on vLLM · 1,000 tokens in, 300 out · first ≤ 1 s")
    decision = " ".join(lines[lines.index("") + 1 :][:3])
    assert decision.startswith("Rent ") and "a million tokens at 5 requests a second" in decision
    assert "sure to hold 1 s and 50 ms." in decision
    assert any("the median of" in line and "the lowest" in line for line in lines)
    assert any("▶" in line for line in lines) and max(map(len, lines)) <= 100


def test_smaller_weights_and_a_cache_of_8_bits_leave_room_for_more_requests(capsys):
    rows = {}
    for options in (("--weights", "bf16"), ("--weights", "fp8"), ("--weights", "fp8", "--cache-bits", "8")):
        found = plain(capsys, "--rps", "1", *options, "--no-measuring", "--devices", "L40S", "--gpus", "1")
        rows[options] = found["options"][0]
    plain_rows = list(rows.values())
    assert [row["weights"] for row in plain_rows] == ["bf16", "fp8", "fp8"]
    weights = [row["memory"]["weights"] for row in plain_rows]
    assert weights[0] > 1.7 * weights[1] == 1.7 * weights[2]
    assert plain_rows[0]["max_requests"] < plain_rows[1]["max_requests"]
    assert plain_rows[2]["max_requests"] == pytest.approx(2 * plain_rows[1]["max_requests"], rel=0.02)


def test_seventy_billion_in_4_bits_fit_one_card_of_48_gb_and_deepseek_eight_h200(capsys):
    one = plain(
        capsys, "--weights", "awq", "--ttft", "9s", "--tpot", "1s", "--no-measuring", "--devices", "L40S", "--gpus=1",
        model="hf:meta-llama/Llama-3.1-70B-Instruct",
    )  # fmt: skip
    row = one["options"][0]
    assert row["fits"] and row["memory"]["weights"] == pytest.approx(39.8e9, rel=0.02) and row["max_requests"] >= 1
    eight = plain(
        capsys, "--rps", "1", "--no-measuring", "--devices", "H200", "--gpus", "8", model="hf:deepseek-ai/DeepSeek-V3"
    )["options"][0]
    assert eight["fits"] and eight["weights"] == "fp8"
    assert 8 * eight["memory"]["weights"] == pytest.approx(673e9, rel=0.01) and eight["max_context"] == 163_840


def test_no_row_has_more_cards_than_somebody_would_run_together(capsys):
    found = plain(
        capsys, "--rps", "30", "--weights", "fp8", "--no-measuring", "--devices", "RTX 4090,L40S,H100 SXM,mac",
        model="hf:meta-llama/Llama-3.1-70B-Instruct",
    )  # fmt: skip
    most = {"RTX 4090": 16, "L40S": 64, "H100 SXM": 512}
    assert all(row["devices"] <= most.get(row["device"], 4) for row in found["options"])
    assert found["pick"]["device"] == "H100 SXM"
    assert any("RTX 4090 (" in line for line in found["notes"])


def test_this_machine_is_a_row_in_4_bits_from_its_measured_memory_rate(capsys, monkeypatch):
    monkeypatch.setattr("whichdevice.measure.machine.calibration.read_rate", lambda: 40e9)
    monkeypatch.setattr("whichdevice.measure.machine.calibration.host_flops", lambda: 5e11)
    monkeypatch.setattr("whichdevice.base.memory.total_memory", lambda: 32 * 2**30)
    found = plain(capsys, "--devices", "L40S", "--gpus", "1", "--tpot", "2s", "--ttft", "60s")
    [here] = [row for row in found["options"] if row["here"]]
    assert here["weights"] == "q4_k_m" and here["engine"] == "llama.cpp" and here["fits"]
    assert here["memory"]["weights"] == pytest.approx(4.92e9, rel=0.05)  # its published file
    assert 3 < here["one_user"][1] < 40e9 / 4.4e9
    assert found["pick"]["here"] and found["lines"][0].startswith("Use this machine: ")


def test_tpus_are_tried_as_the_machines_that_are_rented(capsys):
    rows = plain(capsys, "--rps", "5", "--no-measuring", "--devices", "tpu", "--weights", "bf16")["options"]
    counts = {(row["device"], row["count"]) for row in rows}
    assert {("TPU v6e", 1), ("TPU v6e", 4), ("TPU v6e", 8), ("TPU v5p", 4)} <= counts and ("TPU v5p", 1) not in counts
    assert {row["device"] for row in rows if row["tested"]} == {"TPU v5e", "TPU v6e", "TPU7x"}
    dollars = {row["device"]: row["usd_per_hour"] / row["devices"] for row in rows if row["price"]}
    sheet = {row.device: row.market() for row in hardware_rows().values() if row.kind == "tpu"}
    assert all(dollars[name] == pytest.approx(sheet[name].usd_per_hour) for name in ("TPU v6e", "TPU v5e"))


def test_a_tpus_number_is_that_of_a_machine_and_its_price_is_of_a_chip(capsys):
    few = ("--rps", "5", "--no-measuring", "--weights", "bf16")
    message = error(capsys, *few, "--gpus", "2", "--devices", "L40S,TPU v6e")
    assert "--gpus 2: machines of TPU v6e have 1, 4, 8" in message
    rows = plain(capsys, *few, "--gpus", "2", "--devices", "tpu", "--price", "TPU7x=12")["options"]
    assert {(row["device"], row["count"], row["usd_per_hour"] / row["servers"]) for row in rows} == {("TPU7x", 2, 12.0)}
    assert all(price_of(hardware_rows()[name], 1, {}, ()).usd > 1 for name in ("TPU v3", "TPU v6e"))


def test_a_computer_with_shared_memory_is_forecast_with_llama_cpp(capsys):
    found = plain(capsys, "--no-measuring", "--devices", "mac,DGX Spark", "--tpot", "1s", "--ttft", "60s")
    assert {"Apple M4 Max", "DGX Spark"} <= {row["device"] for row in found["options"]}
    assert {row["engine"] for row in found["options"]} == {"llama.cpp"}
    assert {row["devices"] for row in found["options"]} == {1}


def test_an_api_has_the_load_from_which_an_own_server_is_cheaper(capsys):
    found = plain(capsys, "--rps", "5", "--api-usd", "0.5,1.5", *FEW)
    assert found["api"]["usd_per_hour"] == pytest.approx(5 * 3600 * (1000 * 0.5 + 300 * 1.5) / 1e6)
    assert found["api"]["cheaper_from"] > 0


def test_a_log_is_the_load(capsys, tmp_path):
    log = tmp_path / "log.csv"
    rows = [f"{second / 2},{500 + 10 * (second % 7)},{100 + second % 5}" for second in range(60)]
    log.write_text("\n".join(["arrival,prompt,answer", *rows]), encoding="utf-8")
    found = plain(capsys, "--requests", str(log), *FEW)
    assert found["load"]["rps"] == pytest.approx(2.0, rel=0.02) and found["log"]["requests"] == 60
    assert found["load"]["prompt"] == pytest.approx(530, rel=0.01)
    assert "--rps: --requests says it" in error(capsys, "--requests", str(log), "--rps", "3", *FEW)
    log.write_text(log.read_text(encoding="utf-8") + "\n31,many,5\n", encoding="utf-8")
    assert "--requests log.csv, line 62: prompt is 'many'" in error(capsys, "--requests", str(log), *FEW)


def test_the_users_own_price_is_exact(capsys):
    pick = plain(capsys, "--no-measuring", "--devices", "L40S", "--gpus", "1", "--price", "L40S=0.5")["options"][0]
    assert pick["usd_per_hour"] == 0.5 and pick["price"]["low"] == pick["price"]["high"] == 0.5
    mac = plain(capsys, "--no-measuring", "--devices", "M4 Max", "--ttft", "60s", "--price", "Apple M4 Max=0.15")
    assert mac["options"][0]["usd_per_hour"] == 0.15


def test_the_longest_context_is_a_column_and_never_longer_than_the_models(capsys):
    assert asked("--longest", "--tpot", "1s", *FEW) == 0
    assert "131,072" in capsys.readouterr().out


def test_the_page_has_the_decision_and_every_row(capsys, tmp_path):
    page = tmp_path / "serve.html"
    assert asked("--rps", "5", "--html", str(page), *FEW) == 0
    text = page.read_text(encoding="utf-8")
    assert "a million tokens at 5 requests a second" in text and "<table" in text
    assert text.count('<polyline class="curve') == 4 and "USD a million tokens" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tpot", "0.1ms", *FEW), "nothing holds 2 s and 100 µs; nearest is .*: ask for .*--tpot"),
        (("--prompt", "200000", *FEW), "takes 131,072 tokens, and a request has 200,300: ask for fewer"),
        (("--weights", "fp3", *FEW), "--weights fp3: no such format; there are bf16, fp8"),
        (("--ttft", "soon", *FEW), "--ttft soon: a time is needed, e.g. 50ms or 1s"),
        (("--tpot", "50", *FEW), "--tpot 50: without a unit these are seconds; write 50ms or 50s"),
        (("--rps", "5/s", *FEW), r"--rps: invalid float value: '5/s' \(whichdevice ask --help\)"),
        (("--requests", "no.csv", *FEW), "--requests no.csv: cannot be read: No such file or directory"),
        (("--rps", "0", *FEW), "--rps 0: a number above 0 is needed"),
        (("--api-usd", "1", *FEW), "--api-usd 1: two prices of a million tokens are needed"),
        (("--epochs", "3", *FEW), "--epochs: is no part of serving; use --rps, --prompt, --answer"),
        (("--spot", *FEW), "--spot: is no part of serving"),
        (("--latency", "1s", *FEW), "--latency: is for models that predict"),
        (("--gpus", "16", "--no-measuring"), "--gpus 16: a server is one machine; 1, 2, 4, 8 are possible"),
        (("--no-measuring", "--devices", "L400S"), "unknown device 'L400S'"),
        (("--no-measuring", "--devices", "T4", "--gpus", "1"), "bf16 weights of 16 GB fit none of these devices"),
    ],
)
def test_what_cannot_be_answered_says_why_in_one_line(capsys, options, message):
    assert re.search(message, error(capsys, *options))


def test_the_longest_context_is_of_language_models(capsys):
    for model, *mode in (("mnist_cnn",), (LLAMA, "--mode", "predict"), ("mnist_cnn", "--mode", "serve")):
        assert main(["ask", model, "--longest", "--no-measuring", *mode]) == 2
        assert capsys.readouterr().err.startswith("--longest: is for ")


def test_options_of_serving_belong_to_serving(capsys):
    assert main(["ask", "mnist_cnn", "--rps", "5", "--no-measuring"]) == 2
    assert "--rps: belongs to --mode serve" in capsys.readouterr().err
    assert "--prompt: is for language models; mnist_cnn takes --rps and --latency" in error(
        capsys, "--prompt", "5", model="mnist_cnn"
    )
    assert "--epochs: is no part of serving" in error(capsys, "--epochs", "5", model="mnist_cnn")


def test_python_has_the_same_answer():
    answer = wd.serve(
        "meta-llama/Llama-3.1-8B-Instruct", rps=5, ttft=1.0, tpot=0.05, devices=["L40S", "H100 SXM"], measure=False,
        prices={"L40S": 0.5},
    )  # fmt: skip
    assert answer.best is not None and answer.best.device == "L40S" and answer.best.sure is not None
    assert str(answer).splitlines()[2].startswith("Rent")
    assert {"L40S", "H100 SXM"} == set(answer.to_frame().index) and "<iframe" in answer._repr_html_()
    with pytest.raises(StudyError, match="no such format"):
        wd.serve("meta-llama/Llama-3.1-8B-Instruct", weights="fp3", measure=False)


@pytest.mark.parametrize(
    ("model", "options", "given"),
    [
        (
            "hf:FLUX.1-schnell", ["--rps", "0.1", "--latency", "20s", "--option", "steps=2", "--price", "L4=0.5"],
            {"rps": 0.1, "latency": 20, "options": {"steps": 2}, "prices": {"L4": 0.5}},
        ),
        pytest.param("mnist_cnn", ["--rps", "50"], {"rps": 50}, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_python_has_the_facts_of_the_command_for_images_and_predictions(capsys, model, options, given):
    found = plain(capsys, *options, "--devices", "L4,H100 SXM", "--no-measuring", model=model)
    answer = wd.serve(model, devices=["L4", "H100 SXM"], measure=False, **given)
    assert json.loads(as_json(answer.answer)) == found
    assert answer.best is not None and answer.best.device == found["pick"]["device"]
    assert answer.best.alone == found["pick"]["first_token"] > 0
    with pytest.raises(StudyError, match="--prompt: is for language models"):
        wd.serve(model, prompt=5, measure=False)


def test_an_object_of_python_is_served_too():
    require("torch")
    import numpy as np
    import torch

    images, labels = np.zeros((32, 4), np.float32), np.arange(32) % 3
    net = torch.nn.Linear(4, 3)
    answer = wd.serve(net, images, labels, loss=torch.nn.CrossEntropyLoss(), rps=50, devices=["T4"], measure=False)
    assert answer.best is not None and answer.best.device == "T4"
    assert str(answer).startswith("Linear.py · predictions · answered in 100 ms")
