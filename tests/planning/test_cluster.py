"""What a scheduler is asked for a run, and what a person reads where a run left no record."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import synthetic

from whichdevice.planning.closing import lost_line
from whichdevice.planning.study_plan import StudyPlan, plan_study
from whichdevice.records.store import write_record


@pytest.fixture
def plan(working_folder: Path) -> StudyPlan:
    return plan_study(
        {
            "study": "cluster",
            "run_on": "all",
            "data": {"source": "standin"},
            "measure": {"repeats": 1},
            "forecast": {"devices": []},
            "devices": {
                "epyc": {"kind": "cpu"},
                "h100": {"kind": "gpu", "resources": {"slurm_partition": "gpu", "gres": "gpu:h100:1", "mem_mb": 64000}},
            },
            "workloads": {"matmul": {"batch_size": [64]}},
        }
    )


def asked(plan: StudyPlan, device: str, **profile: str) -> dict:
    resources = plan.scheduler_resources(lambda name, wildcards, attempt: profile.get(name), mem_mb=8000, runtime=20)
    wildcards = SimpleNamespace(device=device)
    return {name: value(wildcards, attempt=1) if callable(value) else value for name, value in resources.items()}


def test_a_devices_own_resources_win_over_the_defaults(plan):
    assert asked(plan, "h100") == {"slurm_partition": "gpu", "gres": "gpu:h100:1", "mem_mb": 64000, "runtime": 20}


def test_what_only_another_device_asks_for_is_left_out(plan):
    assert asked(plan, "epyc") == {"slurm_partition": None, "gres": None, "mem_mb": 8000, "runtime": 20}


def test_what_only_another_device_asks_for_is_the_profile_s_default(plan):
    assert asked(plan, "epyc", slurm_partition="all", gres="none") == {
        "slurm_partition": "all",
        "gres": "none",
        "mem_mb": 8000,
        "runtime": 20,
    }
    assert asked(plan, "h100", slurm_partition="all")["slurm_partition"] == "gpu"


def test_all_devices_are_planned_for_a_scheduler_whatever_this_host_has(plan):
    assert {run.cell.device for run in plan.wanted()} == {"epyc", "h100"}


def test_runs_without_a_record_are_counted_and_the_first_is_named(plan):
    first, second = plan.wanted()
    write_record(synthetic.record_of(plan.study, first), Path(first.record(plan.study)))
    assert lost_line(plan).startswith(f"No record of 1 of 2 runs (first: {second.path}): ")
    assert "The same call again goes on with them." in lost_line(plan)


def test_where_every_run_has_a_record_nothing_is_said(plan):
    for run in plan.wanted():
        write_record(synthetic.failed_record(plan.study, run, "failed", "why"), Path(run.record(plan.study)))
    assert lost_line(plan) == ""
