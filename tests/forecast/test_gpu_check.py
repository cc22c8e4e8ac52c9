"""The check of forecasts on a real GPU, tried here with tiny sizes on the CPU."""

import json
import subprocess
import sys

import pytest
from needs import PROJECT, require

require("torch")

from tools.gpu_check import RECORDS, checks, compare, label, main, measure, sheet_name, table


def records(folder):
    return json.loads((folder / RECORDS).read_text(encoding="utf-8"))["records"]


def test_it_measures_24_different_steps_of_every_kind():
    names = [label(check) for check in checks()]
    assert len(set(names)) == len(names) == 22  # and two of JAX
    for words in ("train", "predict", "prefill", "decode", "eager", "torch.compile", "channels last", "LSTM", "LoRA"):
        assert any(words in name for name in names), words


def test_a_step_is_measured_and_compared_with_its_forecast(tmp_path, capsys):
    main(["--tiny", "--to", str(tmp_path), "--only", "small CNN", "--device", "RTX 4090"])
    assert [record["status"] for record in records(tmp_path)] == ["ok", "ok"]
    assert all(record["seconds"] > 0 and record["host_seconds"] > 0 for record in records(tmp_path))
    found = list(compare(tmp_path, "RTX 4090"))
    assert len(found) == 2 and all(its.low < its.forecast < its.high for its in found)
    written = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert written == table(found) and written.count("small CNN") == 2
    assert "2 steps: median error" in capsys.readouterr().out


def test_no_name_of_a_person_or_a_machine_is_written(tmp_path):
    document = json.loads(measure(tmp_path, tiny=True, only=["none"]).read_text(encoding="utf-8"))
    assert set(document["about"]) <= {"python", "torch", "device", "jax", "transformers"}
    assert document["rates"]["triad"] > 0 and document["rates"]["product half"] > 0


def test_a_step_without_time_left_is_a_record_that_says_so(tmp_path):
    measure(tmp_path, tiny=True, budget=0.0, only=["LSTM"])
    [record] = records(tmp_path)
    assert record["status"] == "no_time" and "ended after 0 s" in record["reason"]


def test_a_gpu_is_found_in_the_sheet_by_its_drivers_name():
    assert sheet_name("NVIDIA H100 80GB HBM3") == "H100 SXM"
    assert sheet_name("NVIDIA GeForce RTX 4090") == "RTX 4090"
    assert sheet_name("NVIDIA L4") == "L4"
    with pytest.raises(SystemExit, match="--device"):
        sheet_name("NVIDIA X9")


@pytest.mark.long
def test_the_whole_check_runs_on_a_cpu_with_tiny_sizes(tmp_path):
    command = [sys.executable, "-m", "tools.gpu_check", "--tiny", "--to", str(tmp_path), "--device", "RTX 4090"]
    subprocess.run(
        command, cwd=PROJECT, check=True, timeout=600, env={"PYTHONPATH": "scripts", "PATH": "/usr/bin:/bin"}
    )
    found = records(tmp_path)
    assert len(found) == 24 and {record["status"] for record in found} == {"ok"}, found
