"""What a call of the workflow brings about, without Snakemake: its runs, and what is left out."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import synthetic
from planning.planned import RUNS, end

from whichdevice.base.errors import StudyError
from whichdevice.study.planning import study_plan
from whichdevice.study.planning.progress import closing_lines
from whichdevice.study.planning.sources import require_writable
from whichdevice.study.records.store import write_record
from whichdevice.study.request import planned_record


def test_wanted_are_the_runs_of_devices_at_hand(plan):
    planned = plan()
    assert len(planned.runs) == 3 * RUNS
    assert {run.cell.device for run in planned.wanted()} == {"cpu", "gpu"}
    assert len(planned.wanted()) == 2 * RUNS
    assert {run.cell.device for run in planned.wanted("gpu")} == {"gpu"}
    assert planned.wanted("tpu") == []


def test_the_cells_of_each_block_have_an_order_of_their_own_that_no_rerun_changes(plan):
    sizes = list(range(64, 640, 64))

    def blocks(**changes: Any) -> list[list[int]]:
        workloads = {"matmul": {"batch_size": changes.pop("sizes", sizes)}}
        planned = plan(workloads=workloads, **changes)
        runs = sorted(planned.wanted("cpu"), key=lambda run: -planned.place(run.path))
        return [[run.cell.batch_size for run in runs if run.repeat == repeat] for repeat in (1, 2)]

    first, second = blocks()
    assert sorted(first) == sorted(second) == sizes
    assert len({tuple(first), tuple(second), tuple(sizes)}) == 3
    assert blocks() == [first, second]
    assert blocks(seed=6) != [first, second]
    assert [size for size in blocks(sizes=[*sizes, 1000])[0] if size != 1000] == first  # a new cell moves no other


def test_a_kind_asked_for_by_name_is_there_or_is_one_line(plan):
    planned = plan()
    assert len(planned.of_kind("gpu")) == RUNS
    with pytest.raises(StudyError, match=r"^tpu: no TPU found on this host; [^\n]+$"):
        planned.of_kind("tpu")


def test_only_narrows_what_is_measured_and_not_the_study(plan):
    planned = plan(only={"workload": "mnist_cnn", "batch_size": 256, "repeat": 2})
    assert [run.path for run in planned.wanted()] == [
        "cpu/mnist_cnn/tensorflow-float32-b256/r2",
        "gpu/mnist_cnn/tensorflow-float32-b256/r2",
    ]
    assert len(planned.runs) == 3 * RUNS


def test_only_that_selects_no_run_at_all_is_one_line(plan):
    """The TPU's eight cores cannot share a batch of 100, so the study has no such run."""
    sizes = {"mnist_cnn": {"batch_size": [100, 256]}}
    with pytest.raises(
        StudyError, match=r"^config: only selects nothing: no run has device tpu, batch_size 100 together$"
    ):
        plan(workloads=sizes, only={"device": "tpu", "batch_size": 100})
    assert plan(workloads=sizes, only={"device": "tpu", "batch_size": 256}).wanted() == []  # no TPU here


def test_earlier_records_are_kept_in_sight(plan):
    earlier = end(plan(), *["ok"] * 2 * RUNS)
    planned = plan(only={"workload": "matmul", "device": "cpu"})
    others = planned.other_records()
    assert set(others) == set(earlier) - set(planned.records(planned.wanted()))
    assert len(others) == 2 * RUNS - 2
    assert planned.other_times() == [Path(path).stat().st_mtime_ns for path in others]


def test_what_did_not_end_well_is_repeated_also_one_refused_before_its_need_was_known(plan):
    paths = end(plan(only={"device": "cpu"}), "failed", "ok", "refused", "timed_out", "out_of_memory")
    again = plan(retry="failed")
    assert again.records(again.wanted()) == [paths[0], *paths[2:5]]


def test_a_run_refused_for_memory_that_there_is_by_now_is_repeated(plan, monkeypatch):
    planned = plan(only={"device": "cpu"})
    for run, need in zip(planned.wanted(), (2e9, 9e9), strict=False):
        facts = synthetic.record_of(planned.study, run).workload.model_copy(update={"estimated_memory": need})
        record = synthetic.failed_record(planned.study, run, "refused").model_copy(update={"workload": facts})
        write_record(record, Path(planned_record(planned.study, run)))
    monkeypatch.setattr(study_plan, "available_memory", lambda: 5e9)
    assert plan(retry="failed").wanted() == planned.wanted()[:1]
    assert plan(retry="failed", run_on="all").wanted() == planned.wanted()[:2]  # whose node may have more


def test_an_unreadable_record_has_failed(plan):
    planned = plan(only={"device": "cpu"})
    paths = end(planned, "ok", "ok")
    Path(paths[0]).write_text("{", encoding="utf-8")
    again = plan(retry="failed")
    assert again.records(again.wanted()) == paths[:1]
    assert "1 of 2 runs failed (1 unreadable)" in closing_lines(planned)[0]


def test_only_the_datasets_of_wanted_runs_are_prepared(plan):
    assert plan().datasets() == ["mnist"]
    assert plan(only={"workload": "matmul"}).datasets() == []
    assert re.fullmatch(r"results/datasets/mnist/standin-[0-9a-f]{8}/dataset.json", plan().dataset_json("mnist"))


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that lacks PyTorch, whatever this one has."""
    monkeypatch.setitem(sys.modules, "torch", None)


def test_runs_of_a_backend_that_is_not_installed_are_left_out_and_told(plan, without_torch):
    planned = plan(workloads={"matmul": {"batch_size": [64], "backend": ["tensorflow", "torch"]}})
    assert {run.cell.backend for run in planned.wanted()} == {"tensorflow"}
    assert "2 runs left out: torch is not installed" in closing_lines(planned)[0]


@pytest.mark.usefixtures("without_torch")
def test_a_study_that_only_a_missing_backend_runs_is_one_line(plan):
    with pytest.raises(StudyError, match=r"^torch is not installed in this environment: make study ENV=torch[^\n]*$"):
        plan(workloads={"matmul": {"batch_size": [64], "backend": "torch"}})


def test_a_batch_that_replicas_cannot_share_is_one_line_before_anything_runs(plan):
    devices = {"gpus": {"kind": "gpu", "replicas": 3}}
    with pytest.raises(StudyError, match=r"^config: workloads\.mnist_cnn\.batch_size: 256 [^\n]*3 replicas[^\n]*of 3$"):
        plan(devices=devices)
    plan(devices=devices, workloads={"matmul": {"batch_size": [64]}})  # every replica runs a whole product
    with pytest.raises(StudyError, match=r"a multiple of 3, or leave the device out: device: \[cpu\]$"):
        plan(devices={"cpu": {"kind": "cpu"}, **devices})


def test_a_batch_that_replicas_of_an_absent_device_cannot_share_makes_no_cell_there_and_is_said(plan):
    planned = plan(workloads={"mnist_cnn": {"batch_size": [1, 100, 256]}})
    sizes = {
        device: {run.cell.batch_size for run in planned.runs if run.cell.device == device} for device in ["cpu", "tpu"]
    }
    assert sizes == {"cpu": {1, 100, 256}, "tpu": {256}}
    told = "Batches that the 8 replicas of tpu cannot share make no cell there: mnist_cnn with 1, mnist_cnn with 100"
    assert planned.notes() == [told]
    assert plan().notes() == []
    with pytest.raises(StudyError, match=r"8 replicas of device tpu; take a multiple of 8$"):
        plan(workloads={"mnist_cnn": {"batch_size": [1], "device": ["tpu"]}})


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=f"cannot write to {tmp_path}/gone, where results/"):
        require_writable(tmp_path / "gone")


def test_a_gpu_is_not_measured_from_an_environment_made_without_cuda(plan, working_folder):
    (working_folder / ".installed-cpu").touch()
    planned = plan()
    assert {run.cell.device for run in planned.wanted()} == {"cpu"}
    assert "make study ENV=gpu" in closing_lines(planned)[0]
    (working_folder / ".installed-gpu").touch()
    assert {run.cell.device for run in plan().wanted()} == {"cpu", "gpu"}
