"""Table `forecasts`: what each row says, beside what was measured and what it costs."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.products import CompiledRecord, CompileFacts, ProgramRequest, write_compiled
from whichdevice.study.tables.base import table
from whichdevice.study.tables.forecasts import forecast_table
from whichdevice.study.tables.summary import SUMMARY_COLUMNS as SUMMARY

WORK = {
    "platform": "gpu",
    "items": [["product", "half", 1e9, 1e6, 1000, None, 1], ["collective", "", 0.0, 1e6, 2, None, 8]],
    "unknown_loops": 0,
    "unknown_calls": 0,
}
FACTS = {"memory": 16e9, "memory_available": 15e9, "memory_needed": 2e9, "unit": "image", "units_per_step": 64}


def record(folder: Path, device: str = "T4", devices: int = 1, status: str = "ok", **settings: Any) -> Path:
    asked = settings.pop("asked", None) or ProgramRequest(
        device=device, devices=devices, workload="cnn", module="mnist_cnn", precision="mixed_float16", batch_size=64
    )
    known = {"facts": CompileFacts.model_validate(FACTS), "work": WORK} if status == "ok" else {}
    made = CompiledRecord(asked=asked, status=status, code_hash="0", **{**known, **settings})
    path = folder / f"{asked.path}" / "key.json"
    write_compiled(made, path)
    return path


def cell(device: str, step_time: float, **settings: Any) -> dict[str, Any]:
    known = {"workload": "cnn", "batch_size": 64, "precision": "float32", "replicas": 1, "step_time": step_time}
    return {"device": device, **known, **settings}


def rows(paths: list[Path], *cells: dict[str, Any], **devices: str) -> pd.DataFrame:
    return forecast_table(paths, table(cells, SUMMARY), dict(devices), hardware_rows())


def test_prompts_and_tokens_are_each_beside_their_measured_time(tmp_path):
    asked = {"device": "T4", "workload": "cnn", "module": "decoder", "precision": "mixed_float16", "batch_size": 64}
    requests = [ProgramRequest.model_validate({**asked, "mode": mode}) for mode in ("prefill", "decode")]
    paths = [record(tmp_path, asked=request) for request in requests]
    own = cell("mine", 0.5, mode="generate", prefill_time=20.0, precision="mixed_float16")
    found = rows(paths, own, mine="T4")
    assert dict(zip(found["mode"], found["own_step_time"], strict=True)) == {"prefill": 20.0, "decode": 0.5}


def test_a_device_that_was_measured_too_shows_how_far_its_forecast_was_off(tmp_path):
    cells = [cell("mine", 0.5, precision="mixed_float16"), cell("mine", 0.1)]
    row = rows([record(tmp_path)], *cells, mine="T4").iloc[0]
    assert row["residual"] == pytest.approx(0.5 / row["step_time"])


def test_the_price_is_that_of_all_devices(tmp_path):
    one, eight = (rows([record(tmp_path, devices=count)]).iloc[0] for count in (1, 8))
    assert eight["usd_per_hour"] == pytest.approx(8 * one["usd_per_hour"])


def test_what_did_not_compile_is_a_row_with_its_reason(tmp_path):
    broken = tmp_path / "L4" / "cnn" / "key.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{", encoding="utf-8")
    found = rows([record(tmp_path, status="unavailable", reason="no compiler"), broken, tmp_path / "none.json"])
    assert list(found["status"]) == ["unavailable", "failed"]
    assert list(found["device"]) == ["T4", "L4"]
    assert found["step_time"].isna().all() and found["reason"].notna().all()
