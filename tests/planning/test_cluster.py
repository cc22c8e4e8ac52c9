"""What a scheduler is asked for a run, and what a person reads where a run left no record."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import synthetic

from whichdevice.study.planning.progress import stopped_lines
from whichdevice.study.planning.slurm import partitions
from whichdevice.study.planning.study_plan import StudyPlan, plan_study
from whichdevice.study.records.store import write_record
from whichdevice.study.request import planned_record


@pytest.fixture
def plan(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> StudyPlan:
    monkeypatch.setenv("PATH", str(working_folder))  # without Slurm, whatever this host has
    partitions.cache_clear()
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


def asked(plan: StudyPlan, device: str) -> dict:
    resources = plan.scheduler_resources(mem_mb=8000, runtime=20)
    wildcards = SimpleNamespace(device=device)
    return {name: value(wildcards) if callable(value) else value for name, value in resources.items()}


def test_a_devices_own_resources_win_over_the_defaults(plan):
    assert asked(plan, "h100") == {
        "slurm_partition": "gpu",
        "gres": "gpu:h100:1",
        "mem_mb": 64000,
        "runtime": 20,
        "cpus_per_task": None,
    }


def test_what_only_another_device_asks_for_is_left_out(plan):
    assert asked(plan, "epyc") == {
        **{"slurm_partition": None, "gres": None, "cpus_per_task": None},
        **{"mem_mb": 8000, "runtime": 20},
    }


def test_all_devices_are_planned_for_a_scheduler_whatever_this_host_has(plan):
    assert {run.cell.device for run in plan.wanted()} == {"epyc", "h100"}


def test_runs_without_a_record_are_counted_and_the_first_is_named(plan):
    first, second = plan.wanted()
    write_record(synthetic.record_of(plan.study, first), Path(planned_record(plan.study, first)))
    assert stopped_lines(plan)[0].startswith(f"No record of 1 of 2 runs (first: {second.path}): ")
    assert "The same call again goes on with them." in stopped_lines(plan)[0]


def test_where_every_run_has_a_record_the_logs_alone_are_named(plan):
    for run in plan.wanted():
        write_record(synthetic.failed_record(plan.study, run, "failed", "why"), Path(planned_record(plan.study, run)))
    assert stopped_lines(plan) == ["The study stopped; finished runs are kept. Logs: results/cluster/logs"]
