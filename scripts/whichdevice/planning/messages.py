"""How runs of a study ended, and what a call of the workflow prints about them."""

import os
from collections import Counter
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.machine.limits import available_memory
from whichdevice.records.store import read_record
from whichdevice.workflow_command import repeat_failed

if TYPE_CHECKING:
    from whichdevice.planning.study_plan import StudyPlan

LONGEST = 300  # characters of what a scheduler says
# How Snakemake ends its message about any job of a scheduler; its message about a job of this host has no such end.
END = "For further error details see the cluster/cloud log"


def run_status(record: str) -> str | None:
    """The status in a run's record, `unreadable` where it cannot be read, None where there is none."""
    path = Path(record)
    if not path.is_file():
        return None
    try:
        return read_record(path).status
    except StudyError:
        return "unreadable"


def is_to_be_repeated(study: Study, record: str) -> bool:
    """Whether `retry=failed` takes a run: it failed, or was refused memory that is now available."""
    status = run_status(record)
    return _would_fit(study, record) if status == "refused" else status not in (None, "ok")


def _would_fit(study: Study, record: str) -> bool:
    """Whether this host has as much memory left as the run was expected to need; a scheduler's node may have."""
    facts = read_record(Path(record)).workload
    if facts is None:  # too many weights to build the model: the next try says so within seconds
        return True
    return study.run_on == "all" or facts.estimated_memory <= available_memory()


def closing_lines(plan: "StudyPlan") -> list[str]:
    """What a person reads at the end of a study."""
    left_out = [
        f"{count} runs left out: {reason}."
        for platform, reason in plan.missing.items()
        if (count := sum(plan.platform(run) == platform and run.cell.device not in plan.absent for run in plan.runs))
    ]
    lines = [line for line in [" ".join([*_how_they_ended(plan), *left_out])] if line]
    page = f"{plan.study.root}/report.html"
    return lines + [f"Report: {page}"] * Path(page).is_file()


def stopped_lines(plan: "StudyPlan") -> list[str]:
    """What a person reads where jobs ended without their output: cancelled, killed, or lost with their node."""
    wanted = plan.wanted()
    lost = [run.path for run in wanted if not Path(plan.record(run)).is_file()]
    lines = [
        f"No record of {len(lost)} of {len(wanted)} runs (first: {lost[0]}): not started, cancelled, "
        "or lost with their node. The same call again goes on with them."
    ] if lost else []  # fmt: skip
    return [*lines, f"The study stopped; finished runs are kept. Logs: {plan.study.root}/logs"]


def _how_they_ended(plan: "StudyPlan") -> list[str]:
    found = (run_status(record) for record in plan.records(plan.in_reach()))
    statuses = Counter(status for status in found if status is not None)
    total, refused = sum(statuses.values()), statuses.pop("refused", 0)
    failed = sum(statuses.values()) - statuses.pop("ok", 0)
    if not total:
        return []
    if not failed and not refused:
        return [f"All {total} runs are ok."]
    named = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    lines = [f"{failed} of {total} runs failed ({named})." if failed else "No run failed."]
    lines += [f"{refused} of {total} runs refused: they did not fit this host."] if refused else []
    again = [*(["failed runs"] if failed else []), *(["refused runs that now fit"] if refused else [])]
    return [*lines, f"The report says why. To repeat {' and '.join(again)}: {repeat_failed(plan.study)}"]


def job_error_line(event: str, facts: dict[str, Any]) -> str:
    """The line for what Snakemake reports of a failed job or group of jobs; empty for anything else."""
    text, end, _ = str(facts.get("rule_msg") or "").partition(END)
    if event == "JOB_ERROR" and end:
        what, logs = next(iter(facts["output"]), facts["rule_name"]), facts["log"]
    elif event == "GROUP_ERROR":
        what, text, logs = f"jobs of group {facts['groupid']}", "failed", facts["aux_logs"]
    else:
        return ""
    text = shorten(text.partition("sbatch call:")[0] or "failed", LONGEST, placeholder=" ...")
    log = f" (log: {os.path.relpath(logs[-1])})" if logs and logs[-1] and Path(logs[-1]).is_file() else ""
    return f"{what.removesuffix(' (update)')}: {text}{log}"
