"""A study of three devices as calls of the workflow plan it, and records of how its runs ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import synthetic

from whichdevice.study.planning.study_plan import StudyPlan
from whichdevice.study.records.store import write_record
from whichdevice.study.request import planned_record

CONFIG: dict[str, Any] = {
    "study": "planned",
    "seed": 5,
    "data": {"source": "standin"},
    "measure": {"repeats": 2},
    "train": {"epochs": 1},
    "workloads": {"matmul": {"batch_size": [64]}, "mnist_cnn": {"batch_size": [256, 512]}},
}
RUNS = 2 * 3  # repeats, cells; of each of three devices
Plan = Callable[..., StudyPlan]


def end(plan: StudyPlan, *statuses: str) -> list[str]:
    """Write records that end in these statuses, run by run in the order of measuring; their paths."""
    runs = plan.wanted()[: len(statuses)]
    for run, status in zip(runs, statuses, strict=True):
        good = status == "ok"
        record = (
            synthetic.record_of(plan.study, run) if good else synthetic.failed_record(plan.study, run, status, "why")
        )
        write_record(record, Path(planned_record(plan.study, run)))
    return plan.records(runs)
