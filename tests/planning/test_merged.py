"""What is merged in results/<study> belongs to a call: read while it is planned, without network, lock or change."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import synthetic

from whichdevice.base.errors import StudyError
from whichdevice.measure.machine.facts import this_machine
from whichdevice.measure.record import Record
from whichdevice.study.config.load import load_study
from whichdevice.study.planning.study_plan import StudyPlan, plan_study
from whichdevice.study.records.store import write_record
from whichdevice.study.remote.records import bring_records

CONFIG: dict[str, Any] = {**synthetic.SMALL, "data": {"source": "standin"}}
ROOT = Path("results/small")
UNUSED = """
import sys
reached = []
sys.addaudithook(lambda event, arguments: reached.append(event) if event.startswith("socket.") else None)
from whichdevice.study.planning.study_plan import plan_study
planned = plan_study({"workloads": {"mnist_official": {"batch_size": [64]}}})
assert planned.notes() == ["mnist: stand-in data of the same shapes; data.source: tfds downloads the real data"]
remote = ("fsspec", "gcsfs", "google.auth", "whichdevice.study.remote")
print(reached + [name for name in remote if name in sys.modules])
"""


def merge(device: str, name: str) -> None:
    """Merge records of a device of another machine."""
    synthetic.write_study(synthetic.small_study(), Path("other"), devices=[device])
    bring(rename={device: name})


def bring(**config: Any) -> None:
    """Bring the records of the other machine."""
    bring_records(load_study({**CONFIG, "records": "other", **config}))


def plan(**changes: Any) -> StudyPlan:
    return plan_study({**CONFIG, **changes})


def test_planning_reaches_no_network(working_folder: Path, project_root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNUSED],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(project_root / "scripts")},
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_merged_device_is_in_the_study_and_not_measured(working_folder: Path) -> None:
    merge("gpu", "a100")
    planned = plan()
    assert list(planned.study.devices) == ["cpu", "a100"]
    assert planned.absent == {"a100": "measured elsewhere; its records were brought here"}
    assert {run.cell.device for run in planned.wanted()} == {"cpu"}
    assert len(planned.other_records()) == 4 == len(planned.other_times())


def test_only_a_merged_device_measures_nothing_and_one_that_nobody_has_is_refused(working_folder: Path) -> None:
    merge("gpu", "a100")
    planned = plan(only={"device": "a100"})
    assert planned.wanted() == [] and len(planned.other_records()) == 4
    with pytest.raises(StudyError, match=r"config: only.device: a10 does not occur in this study; did you mean a100?"):
        plan(only={"device": "a10"})


def test_runs_of_this_machine_that_are_merged_are_not_measured_again(working_folder: Path) -> None:
    def some(run: Any, record: Record) -> Record | None:
        return record.model_copy(update={"machine": this_machine()}) if run.cell.batch_size == 256 else None

    synthetic.write_study(synthetic.small_study(), Path("other"), devices=["cpu"], change=some)
    bring()
    planned = plan()
    assert {run.cell.batch_size for run in planned.wanted()} == {1024}
    assert len(planned.other_records()) == 2


def test_an_own_record_comes_before_a_merged_one(working_folder: Path) -> None:
    def own(run: Any, record: Record) -> Record:
        return record.model_copy(update={"machine": this_machine()})

    synthetic.write_study(synthetic.small_study(), Path("other"), devices=["cpu"], change=own)
    bring()
    run, *others = plan().merged_records
    write_record(own(run, synthetic.record_of(plan().study, run)), Path(plan().record(run)))
    assert list(plan().merged_records) == others


def test_another_workload_of_the_same_name_is_left_out_with_a_note(working_folder: Path) -> None:
    merge("gpu", "a100")
    planned = plan(workloads={"mnist_cnn": {"module": "mnist_official"}})
    assert planned.merged.records == {}
    left_out = "4 records of other machines left out: "
    assert f"{left_out}workload mnist_cnn is mnist_cnn there and mnist_official here" in planned.notes()
    planned = plan(workloads={"matmul": {"batch_size": [64]}})
    assert f"{left_out}this study has no workload mnist_cnn" in planned.notes()


def test_a_device_that_is_another_kind_here_by_now_is_left_out_with_a_note(working_folder: Path) -> None:
    merge("gpu", "a100")
    planned = plan(devices={"cpu": {"kind": "cpu"}, "a100": {"kind": "gpu", "replicas": 2}})
    assert planned.merged.records == {} and "a100" in planned.absent
    assert "another name (--rename)" in planned.notes()[0]


def test_publishing_needs_a_bucket(working_folder: Path) -> None:
    with pytest.raises(StudyError, match=r"^publish: the config names no bucket; set storage\.bucket, e\.g\. "):
        plan().require_bucket()
    assert plan(storage={"bucket": "folder"}).require_bucket() == []
