"""What people timed on their cards becomes a file that names nobody, and a source of the fit."""

import json

import pandas as pd
import pytest

from whichdevice.__main__ import main
from whichdevice.forecast.products import CompiledRecord, CompileFacts, ProgramRequest, write_compiled
from whichdevice.study.records.commons import TimedStep, card_of, read_cards, write_card
from whichdevice.study.tables.base import table, write_table
from whichdevice.study.tables.forecasts import COLUMNS

WORK = {"platform": "gpu", "items": [["product", "half", 1e9, 1e6, 1000, None, 1]], "unknown_loops": 0,
        "unknown_calls": 0, "software": "eager"}  # fmt: skip
SECRET = "secret_project"


@pytest.fixture
def results(tmp_path):
    """A study that timed one step on a T4."""
    asked = ProgramRequest(
        device="T4", workload=SECRET, module=f"/home/me/{SECRET}.py", precision="mixed_float16", batch_size=64
    )
    facts = CompileFacts(memory=16e9, memory_available=15e9)
    record = tmp_path / "programs" / "T4.json"
    versions = {"torch": "2.11"}
    write_compiled(
        CompiledRecord(asked=asked, status="ok", code_hash="0", facts=facts, work=WORK, versions=versions), record
    )
    row = {
        "device": "T4", "devices": 1, "workload": SECRET, "module": asked.module, "precision": "mixed_float16",
        "batch_size": 64, "mode": "train", "status": "ok", "step_time": 0.1, "own_step_time": 0.12, "residual": 1.2,
        "record": str(record),
    }  # fmt: skip
    write_table(table([{name: row.get(name) for name in COLUMNS}], COLUMNS), tmp_path / "tables/forecasts.csv")
    return tmp_path


def test_a_file_has_work_and_time_and_no_name(results, tmp_path, capsys):
    assert main(["share", str(results), "--to", str(tmp_path / "commons")]) == 0
    [(name, card)] = read_cards(tmp_path / "commons")
    assert card.device == "T4" and card.versions == {"torch": "2.11"} and name.startswith("T4-")
    [step] = card.steps
    assert (step.seconds, step.batch, step.mode, step.precision) == (0.12, 64, "train", "mixed_float16")
    text = (tmp_path / "commons" / f"{name}.json").read_text(encoding="utf-8")
    assert SECRET not in text and "home" not in text
    assert "1 steps of T4" in capsys.readouterr().out


def test_the_fit_reads_each_file_as_a_source_of_its_own(results, tmp_path):
    from fit.fitting import shared_rows

    from whichdevice.base.sheets.hardware import hardware_rows
    from whichdevice.forecast.time_model import Peaks

    main(["share", str(results), "--to", str(tmp_path / "commons")])
    [row] = shared_rows({"T4": Peaks.of(hardware_rows()["T4"])}, tmp_path / "commons")
    assert row.source_group.startswith("commons_T4-") and row.seconds == 0.12 and row.software == "eager"


def test_the_same_step_has_the_same_name_on_every_card(tmp_path):
    step = TimedStep(mode="train", precision="float32", batch=8, seconds=0.1, work=WORK)
    cards = [card_of(device, [step, step.model_copy(update={"seconds": 0.2})], {}) for device in ("T4", "L4")]
    assert [len(card.steps) for card in cards] == [1, 1] and cards[0].steps[0].seconds == 0.1
    assert cards[0].steps[0].name == cards[1].steps[0].name
    assert write_card(cards[0], tmp_path) != write_card(cards[1], tmp_path)


@pytest.mark.parametrize("content", [None, {}])
def test_a_study_without_a_timed_gpu_says_so(tmp_path, capsys, content):
    if content is not None:
        write_table(table(pd.DataFrame([content]).to_dict("records")[:0], COLUMNS), tmp_path / "tables/forecasts.csv")
    assert main(["share", str(tmp_path)]) == 2
    assert "share:" in capsys.readouterr().err


def test_a_broken_file_is_named(tmp_path):
    from whichdevice.base.errors import StudyError

    (tmp_path / "bad.json").write_text(json.dumps({"device": "T4"}), encoding="utf-8")
    with pytest.raises(StudyError, match=r"bad\.json"):
        list(read_cards(tmp_path))
