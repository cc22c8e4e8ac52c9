"""How a call of the workflow ended, in words."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from whichdevice.cells import Run
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.records.store import read_record
from whichdevice.workflow_command import repeat_failed

if TYPE_CHECKING:
    from whichdevice.planning.study_plan import StudyPlan


def run_status(study: Study, run: Run) -> str | None:
    """The status in a run's record, `unreadable` where it cannot be read, None where there is none."""
    path = Path(run.record(study))
    if not path.is_file():
        return None
    try:
        return read_record(path).status
    except StudyError:
        return "unreadable"


def closing_line(plan: "StudyPlan") -> str:
    """What a person reads at the end of a study; nothing where no run belongs to it."""
    left_out = [
        f" {count} runs left out: {reason}."
        for platform, reason in plan.missing.items()
        if (count := sum(plan.platform(run) == platform and run.cell.device not in plan.absent for run in plan.runs))
    ]
    return _how_they_ended(plan) + "".join(left_out)


def lost_line(plan: "StudyPlan") -> str:
    """What a person reads where jobs ended without a record: cancelled, killed, or lost with their node."""
    wanted = plan.wanted()
    lost = [run.path for run in wanted if not Path(run.record(plan.study)).is_file()]
    if not lost:
        return ""
    return (
        f"No record of {len(lost)} of {len(wanted)} runs (first: {lost[0]}): not started, cancelled, "
        "or lost with their node. The same call again goes on with them."
    )


def _how_they_ended(plan: "StudyPlan") -> str:
    statuses = Counter(status for run in plan.in_reach() if (status := run_status(plan.study, run)) is not None)
    total, refused = sum(statuses.values()), statuses.pop("refused", 0)
    failed = sum(statuses.values()) - statuses.pop("ok", 0)
    if not total:
        return ""
    if not failed and not refused:
        return f"All {total} runs are ok."
    named = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    told = f"{failed} of {total} runs failed ({named})." if failed else "No run failed."
    told += f" {refused} of {total} runs refused: they did not fit this host." if refused else ""
    again = [*(["the failed ones"] if failed else []), *(["the refused ones that fit by then"] if refused else [])]
    return f"{told} The report says why; to repeat {' and '.join(again)}: {repeat_failed(plan.study)}"
