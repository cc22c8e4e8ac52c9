"""`serve`: which machine answers so many requests a second in time: of a language model, of one that makes images."""

import json
from pathlib import Path

import pytest

import whichdevice as wd
from whichdevice.__main__ import main
from whichdevice.apps.questions.serving import price_of
from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide.words import as_json

LLAMA, FLUX = "hf:meta-llama/Llama-3.1-8B-Instruct", "hf:black-forest-labs/FLUX.1-dev"
FEW = ("--devices", "L40S,H100 SXM", "--gpus", "1,2")
FOUR = ("--devices", "L4,L40S,H100 SXM,MI300X")


@pytest.fixture(autouse=True)
def _a_known_machine_and_no_other_prices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("whichdevice.measure.machine.calibration.read_rate", lambda: 40e9)
    monkeypatch.setattr("whichdevice.measure.machine.calibration.host_flops", lambda: 5e11)
    monkeypatch.setattr("whichdevice.base.memory.total_memory", lambda: 32 * 2**30)


def asked(*options: str, model: str = LLAMA) -> int:
    return main(["serve", model, *options])


def plain(capsys: pytest.CaptureFixture[str], *options: str, model: str = LLAMA) -> dict:
    assert asked(*options, "--json", model=model) == 0
    return json.loads(capsys.readouterr().out)


def test_the_first_line_says_what_to_rent_what_it_costs_and_how_sure_it_holds_the_targets(capsys):
    assert asked("--rps", "5", "--ttft", "1s", "--tpot", "50ms", *FEW) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Llama-3.1-8B-Instruct · bf16 on vLLM · 1,000 tokens in, 300 out · first ≤ 1 s")
    decision = " ".join(lines[lines.index("") + 1 :][:3])
    assert decision.startswith("Rent ") and "a million tokens at 5 requests a second" in decision
    assert "sure to hold 1 s and 50 ms." in decision
    assert any("▶" in line for line in lines) and max(map(len, lines)) <= 100 and len(lines) <= 22
    assert asked("--rps", "5", "--ttft", "1s", "--tpot", "50ms", "--why", *FEW) == 0
    whole = capsys.readouterr().out
    assert "the median of" in whole and "the lowest" in whole and len(whole.splitlines()) > len(lines)


def test_smaller_weights_leave_room_for_more_requests(capsys):
    wide, narrow = (
        plain(capsys, "--rps", "1", "--weights", weights, "--devices", "L40S", "--gpus", "1")["options"][0]
        for weights in ("bf16", "fp8")
    )
    assert (wide["weights"], narrow["weights"]) == ("bf16", "fp8")
    assert wide["memory"]["weights"] > 1.7 * narrow["memory"]["weights"]
    assert wide["max_requests"] < narrow["max_requests"]


def test_no_row_has_more_cards_than_somebody_would_run_together(capsys):
    found = plain(
        capsys, "--rps", "30", "--weights", "fp8", "--devices", "RTX 4090,L40S,H100 SXM,mac",
        model="hf:meta-llama/Llama-3.1-70B-Instruct",
    )  # fmt: skip
    most = {"RTX 4090": 16, "L40S": 64, "H100 SXM": 512}
    assert all(row["devices"] <= most.get(row["device"], 4) for row in found["options"])
    assert found["pick"]["device"] == "H100 SXM"
    assert any("64 × L40S (" in line for line in found["notes"])


def test_this_machine_is_a_row_in_4_bits_from_its_measured_memory_rate(capsys):
    found = plain(capsys, "--devices", "L40S", "--gpus", "1", "--tpot", "2s", "--ttft", "60s")
    [here] = [row for row in found["options"] if row["here"]]
    assert here["weights"] == "q4_k_m" and here["engine"] == "llama.cpp" and here["fits"]
    assert here["memory"]["weights"] == pytest.approx(4.92e9, rel=0.05)  # its published file
    assert 3 < here["one_user"][1] < 40e9 / 4.4e9
    assert found["pick"]["here"] and found["lines"][0].startswith("Use this machine: ")


def test_tpus_are_tried_as_the_machines_that_are_rented(capsys):
    rows = plain(capsys, "--rps", "5", "--devices", "tpu", "--weights", "bf16")["options"]
    counts = {(row["device"], row["count"]) for row in rows}
    assert {("TPU v6e", 1), ("TPU v6e", 4), ("TPU v6e", 8), ("TPU v5p", 4)} <= counts and ("TPU v5p", 1) not in counts
    assert {row["device"] for row in rows if row["tested"]} == {"TPU v5e", "TPU v6e", "TPU7x"}
    dollars = {row["device"]: row["usd_per_hour"] / row["devices"] for row in rows if row["price"]}
    sheet = {row.device: row.market() for row in hardware_rows().values() if row.kind == "tpu"}
    assert all(dollars[name] == pytest.approx(sheet[name].usd_per_hour) for name in ("TPU v6e", "TPU v5e"))


def test_a_tpus_number_is_that_of_a_machine_and_its_price_is_of_a_chip(capsys):
    few = ("--rps", "5", "--weights", "bf16")
    rows = plain(capsys, *few, "--gpus", "2", "--devices", "tpu", "--price", "TPU7x=12")["options"]
    assert {(row["device"], row["count"], row["usd_per_hour"] / row["servers"]) for row in rows if not row["here"]} == {
        ("TPU7x", 2, 12.0)
    }
    assert all(price_of(hardware_rows()[name], 1, {}).usd_per_hour > 1 for name in ("TPU v3", "TPU v6e"))


def test_a_computer_with_shared_memory_is_forecast_with_llama_cpp(capsys):
    found = plain(capsys, "--devices", "mac,DGX Spark", "--tpot", "1s", "--ttft", "60s")
    assert {"Apple M4 Max", "DGX Spark"} <= {row["device"] for row in found["options"]}
    assert {row["engine"] for row in found["options"]} == {"llama.cpp"}
    assert {row["devices"] for row in found["options"]} == {1}


def test_the_users_own_price_is_exact(capsys):
    pick = plain(capsys, "--devices", "L40S", "--gpus", "1", "--price", "L40S=0.5")["options"][0]
    assert pick["usd_per_hour"] == 0.5 and pick["price"]["low"] == pick["price"]["high"] == 0.5
    mac = plain(capsys, "--devices", "M4 Max", "--ttft", "60s", "--price", "Apple M4 Max=0.15")
    assert mac["options"][0]["usd_per_hour"] == 0.15


def test_the_longest_context_is_a_column_and_never_longer_than_the_models(capsys):
    assert asked("--why", "--tpot", "1s", *FEW) == 0
    assert "131,072" in capsys.readouterr().out


def test_the_page_has_the_decision_and_every_row(capsys, tmp_path):
    page = tmp_path / "serve.html"
    assert asked("--rps", "5", "--html", str(page), *FEW) == 0
    text = page.read_text(encoding="utf-8")
    assert "a million tokens at 5 requests a second" in text and "<table" in text
    assert text.count('<polyline class="curve') == 4 and "USD a million tokens" in text


def test_python_has_the_same_answer():
    answer = wd.serve(
        "meta-llama/Llama-3.1-8B-Instruct", rps=5, tokens=(900, 200), ttft=1.0, tpot=0.05,
        devices=["L40S", "H100 SXM"], prices={"L40S": 0.5},
    )  # fmt: skip
    assert answer.best is not None and answer.best.device == "L40S" and answer.best.sure is not None
    assert "900 tokens in, 200 out" in str(answer) and str(answer).splitlines()[2].startswith("Rent")
    assert {"L40S", "H100 SXM", "this machine"} == set(answer.to_frame().index) and "<iframe" in answer._repr_html_()
    with pytest.raises(StudyError, match="no such format"):
        wd.serve("meta-llama/Llama-3.1-8B-Instruct", weights="fp3")


def test_python_has_the_facts_of_the_command_for_images(capsys):
    found = plain(capsys, "--rps", "0.1", "--latency", "20s", "--price", "L4=0.5", "--devices", "L4,H100 SXM",
                  model="hf:FLUX.1-schnell")  # fmt: skip
    answer = wd.serve("hf:FLUX.1-schnell", rps=0.1, latency=20, devices=["L4", "H100 SXM"], prices={"L4": 0.5})
    assert json.loads(json.dumps(as_json(answer.answer))) == found
    assert answer.best is not None and answer.best.device == found["pick"]["device"]
    assert answer.best.alone == found["pick"]["first_token"] > 0


def test_the_first_line_says_what_to_rent_and_what_a_thousand_images_cost(capsys):
    assert asked(*FOUR, model=FLUX) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FLUX.1-dev · 1024 × 1024 · 28 steps · answered in 60 s"
    said = " ".join(lines)
    assert "USD 11 a thousand images one" in said and "USD/1000" in said
    assert "token" not in said and max(map(len, lines)) <= 100


def test_a_load_takes_several_gpus_and_a_range_stands_at_each(capsys):
    pick = plain(capsys, *FOUR, "--rps", "2", "--latency", "90s", model=FLUX)["pick"]
    assert pick["servers"] > 1 and pick["sure"] >= 0.8 and pick["max_rps_low"] < pick["max_rps"] < pick["max_rps_high"]
    assert pick["usd_million"] == pytest.approx(pick["usd_per_hour"] / 3600 / 2 * 1e6)
    assert set(pick["memory"]) == {"weights", "denoiser", "words", "decoder", "values"}


def test_a_video_has_frames_and_half_an_hour(capsys):
    video = plain(capsys, *FOUR, model="Wan2.1-T2V-1.3B")
    assert "832 × 480, 81 frames" in video["title"] and video["load"]["ttft"] == 1800
