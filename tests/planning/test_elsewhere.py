"""A call takes datasets, records and whole studies from elsewhere only where it says so."""

import subprocess
import sys
from pathlib import Path

import pytest
import synthetic

from whichdevice.config.load import load_study
from whichdevice.devices.machine import this_machine
from whichdevice.errors import StudyError
from whichdevice.planning.claim import Claim
from whichdevice.planning.elsewhere import in_bucket, require_bucket, with_elsewhere
from whichdevice.planning.study_plan import plan_study
from whichdevice.storage.dataset_copy import DATASETS

CONFIG = {**synthetic.SMALL, "data": {"source": "standin"}}
UNUSED = """
import sys
from whichdevice.planning.study_plan import plan_study
plan_study({"workloads": {"matmul": {"batch_size": [64]}}, "data": {"source": "standin"}})
names = ("fsspec", "gcsfs", "google.auth", "whichdevice.storage", "whichdevice.merging")
print([name for name in names if name in sys.modules])
"""


def test_without_them_nothing_is_imported_or_asked(working_folder, project_root):
    done = subprocess.run(
        [sys.executable, "-c", UNUSED],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(project_root / "scripts")},
    )
    assert done.stdout.strip() == "[]", done.stderr
    call = load_study(CONFIG)
    assert with_elsewhere(call, refresh=True, claim=Claim())[0] is call and in_bucket(call) == {}


def test_a_dataset_in_the_bucket_is_at_hand(working_folder, monkeypatch):
    for source in ("standin", "files"):
        path = working_folder / "there" / DATASETS / "mnist" / source / "dataset.json"
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    monkeypatch.setattr("whichdevice.datasets.sources.unreachable_host", lambda recipe: "no network")
    config = {**CONFIG, "data": {"source": "auto"}, "storage": {"bucket": "there"}}
    assert plan_study(config).study.data.sources == {"mnist": "files"}
    assert plan_study({**config, "storage": {}}).study.data.sources == {"mnist": "standin"}


def test_publishing_needs_a_bucket():
    with pytest.raises(StudyError, match=r"publish: where to\?"):
        require_bucket(load_study(CONFIG))


def test_runs_of_this_machine_that_are_merged_are_not_measured_again(working_folder):
    machine = this_machine()
    study = synthetic.small_study(devices={"cpu": load_study(CONFIG).devices["cpu"]})

    def some(run, record):
        return record.model_copy(update={"machine": machine}) if run.cell.batch_size == 256 else None

    synthetic.write_study(study, Path("other"), change=some)
    plan = plan_study({**CONFIG, "merge": "other"})
    assert {run.cell.batch_size for run in plan.wanted()} == {1024}
    assert len(plan.other_records()) == 2


def test_a_merged_device_is_in_the_study_and_not_measured(working_folder):
    synthetic.write_study(synthetic.small_study(), Path("other"), devices=["gpu"])
    plan = plan_study({**CONFIG, "merge": [{"from": "other", "rename": {"gpu": "a100"}}]})
    assert list(plan.study.devices) == ["cpu", "a100"] and plan.absent == {
        "a100": "measured elsewhere; its records come by merge"
    }
    assert {run.cell.device for run in plan.wanted()} == {"cpu"}
    assert len(plan.other_records()) == 4


@pytest.mark.parametrize(
    ("entry", "device"), [("other", "gpu"), ({"from": "other", "rename": {"gpu": "a100"}}, "a100")]
)
def test_only_a_merged_device_is_drawn_without_measuring_anything(working_folder, entry, device):
    synthetic.write_study(synthetic.small_study(), Path("other"), devices=["gpu"])
    plan = plan_study({**CONFIG, "merge": [entry], "only": {"device": device}})
    assert plan.wanted() == [] and len(plan.other_records()) == 4


def test_only_a_device_that_nobody_has_is_refused(working_folder):
    synthetic.write_study(synthetic.small_study(), Path("other"), devices=["gpu"])
    with pytest.raises(StudyError, match=r"config: only.device: a10 does not occur in this study; did you mean a100?"):
        plan_study({**CONFIG, "merge": [{"from": "other", "rename": {"gpu": "a100"}}], "only": {"device": "a10"}})
