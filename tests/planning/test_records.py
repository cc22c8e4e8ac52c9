"""Which records a call takes and which runs it measures: decided by the paths of records, which end in a key."""

import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from planning.planned import end

from whichdevice.base import code_hash
from whichdevice.models import loading
from whichdevice.study import prepare
from whichdevice.study import request as requests

RECORD = r"results/planned/runs/cpu/mnist_cnn/tensorflow-float32-b256/r1/[0-9a-f]{12}/record\.json"
CPU = {"only": {"device": "cpu"}}


@pytest.fixture
def edited(monkeypatch, tmp_path):
    """Plan with a copy of the package; `edited(file, text)` adds text to one of its files, `edited()` takes it back."""
    package = tmp_path / "whichdevice"
    shutil.copytree(code_hash.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    before: dict[Path, str] = {}

    def forget() -> None:
        for cached in (code_hash._find, code_hash._source, requests.run_code_hash, requests._recipe):
            cached.cache_clear()

    def edit(file: str = "", text: str = "") -> None:
        for path, content in before.items():
            path.write_text(content, encoding="utf-8")
        if file:
            before[package / file] = (package / file).read_text(encoding="utf-8")
            (package / file).write_text(before[package / file] + text, encoding="utf-8")
        forget()

    for place in (loading, prepare):
        monkeypatch.setattr(place, "code_hash", partial(code_hash.code_hash, package=package))
    edit()
    yield edit
    monkeypatch.undo()
    forget()


def paths(planned) -> dict[str, str]:
    return {run.path: planned.record(run) for run in planned.runs}


def differ(one: dict[str, str], other: dict[str, str]) -> set[str]:
    """Workloads of the runs of both whose records are others."""
    return {run.split("/")[1] for run in one.keys() & other.keys() if one[run] != other[run]}


def test_a_finished_study_has_nothing_to_measure(plan):
    planned = plan(**CPU)
    assert re.fullmatch(RECORD, planned.record(next(run for run in planned.runs if run.cell.batch_size == 256)))
    assert len(planned.to_measure()) == 6
    end(planned, *["ok"] * 4, "failed", "timed_out")
    assert plan(**CPU).to_measure() == []


def test_another_time_budget_measures_everything_and_the_old_one_nothing_again(plan):
    end(plan(**CPU), *["ok"] * 6)
    longer = plan(measure={"repeats": 2, "seconds": 7}, **CPU)
    assert len(longer.to_measure()) == len(longer.changed()) == 6
    assert "6 measured runs changed in settings, code or data" in longer.notes()[0]
    end(longer, *["ok"] * 6)
    assert plan(measure={"repeats": 2, "seconds": 7}, **CPU).to_measure() == []
    assert plan(**CPU).to_measure() == []  # changed back
    assert len(list(Path("results/planned/runs").rglob("record.json"))) == 12


def test_neither_other_devices_nor_prices_nor_archives_change_a_key(plan):
    before = paths(plan())
    Path("archives/mnist").mkdir(parents=True)
    Path("archives/mnist/train-images-idx3-ubyte.gz").write_bytes(b"another")
    devices = {"cpu": {"kind": "cpu", "usd_per_hour": 3.0, "resources": {"mem_mb": 5}}}
    after = paths(plan(devices=devices, data={"source": "standin", "dir": "archives"}))
    assert differ(before, after) == set() and after


NEW_CODE, COMMENT = "\n\nADDED = 1\n", "\n# A comment, which changes no number.\n"


@pytest.mark.parametrize(
    ("file", "text", "measured"),
    [
        ("measure/backends/tensorflow.py", NEW_CODE, {"matmul", "mnist_cnn"}),
        ("measure/backends/torch.py", NEW_CODE, set()),
        ("measure/backends/tensorflow.py", COMMENT, set()),
        ("models/workloads/mnist_cnn.py", NEW_CODE, {"mnist_cnn"}),
        ("models/datasets/mnist.py", NEW_CODE, {"mnist_cnn"}),
        ("study/figures/roofline.py", NEW_CODE, set()),
    ],
    ids=["its backend", "another backend", "a comment", "a workload", "a dataset", "a figure"],
)
def test_edited_code_measures_what_it_made_and_the_edit_taken_back_nothing(plan, edited, file, text, measured):
    end(plan(**CPU), *["ok"] * 6)
    edited(file, text)
    assert {run.cell.workload for run in plan(**CPU).to_measure()} == measured
    edited()
    assert plan(**CPU).to_measure() == []


def test_a_dataset_of_another_recipe_is_another_folder(plan, edited):
    before = plan().dataset_json("mnist")
    edited("models/datasets/mnist.py", NEW_CODE)
    assert plan().dataset_json("mnist") != before


def test_a_lost_record_is_measured_again_and_blocks_nothing_else(plan):
    lost, *_ = end(plan(**CPU), *["ok"] * 6)
    Path(lost).unlink()
    assert plan(**CPU).records(plan(**CPU).to_measure()) == [lost]
    assert plan(only={"device": "cpu", "workload": "mnist_cnn"}).to_measure() == []


def test_a_deleted_dataset_is_an_input_of_missing_records_alone(plan):
    planned = plan(**CPU)
    done, missing = [planned.record(run) for run in planned.wanted() if run.cell.workload == "mnist_cnn"][:2]
    Path(done).parent.mkdir(parents=True)
    Path(done).touch()
    described = planned.dataset_json("mnist")
    assert planned.dataset_input("mnist_cnn", missing, str) == [described]
    assert planned.dataset_input("mnist_cnn", done, str) == []
    Path(described).parent.mkdir(parents=True)
    Path(described).touch()
    assert planned.dataset_input("mnist_cnn", done, str) == [described]
    assert planned.dataset_input("matmul", missing, str) == []


def test_tables_take_the_records_of_this_config_and_not_the_older_ones(plan):
    older = end(plan(**CPU), *["ok"] * 6)
    longer = plan(measure={"repeats": 2, "seconds": 7}, only={"device": "gpu"})
    assert longer.other_records() == []
    newer = end(plan(measure={"repeats": 2, "seconds": 7}, **CPU), *["ok"] * 2)
    assert set(longer.other_records()) == set(newer)
    assert not set(older) & set(newer)
