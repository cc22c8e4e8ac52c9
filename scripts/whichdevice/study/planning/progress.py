"""Progress of a study: one live line, one line for each finished run, and the answer at the end.

A handler of Snakemake's logger listens to its events; Snakemake's own lines stay in its log. It raises nothing: a
handler that does would stop Snakemake.
"""

import logging
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from textwrap import shorten
from typing import IO, Any

from whichdevice.base.cpu import is_full
from whichdevice.base.errors import StudyError
from whichdevice.base.numbers import duration
from whichdevice.base.terminal import LiveLine
from whichdevice.study.cells import parse_run, repeat_failed
from whichdevice.study.planning.study_plan import StudyPlan, run_status
from whichdevice.study.records.store import RECORD, read_record
from whichdevice.study.run_progress import run_line

MAX_CHARACTERS = 300  # characters of what a scheduler says
# How Snakemake ends its message about any job of a scheduler; its message about a job of this host has no such end.
END = "For further error details see the cluster/cloud log"
DRY_RUN = re.compile(r"--dry-?run|-[A-Za-z]*n[A-Za-z]*|--mode|--lint")
NOTHING_TO_DO = "Nothing to be done"
# Beginnings of what Snakemake adds to the line of the job itself and to the closing ones: commands and its own state.
REPEATED = ("RuleException", "WorkflowError:\nAt least one job", "Exiting because a job", "Cannot restore")


def shows_progress(arguments: Sequence[str]) -> bool:
    """Whether this call of Snakemake runs jobs that a person waits for: no dry run, and no job of a scheduler."""
    return not any(DRY_RUN.fullmatch(argument.partition("=")[0]) for argument in arguments)


class OnlyProblems(logging.Filter):
    """Keeps Snakemake's ordinary lines off the terminal; warnings, errors and `Nothing to be done` pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is printed."""
        text = str(record.msg)
        return text.startswith(NOTHING_TO_DO) or (record.levelno >= logging.WARNING and not text.startswith(REPEATED))


class StudyProgress(logging.Handler):
    """A handler of Snakemake's logger for one call of the workflow."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        super().__init__()
        self._line = LiveLine(self.text, stream)
        self._jobs: dict[int, tuple[str, float]] = {}  # that run now, by Snakemake's number: name, and when it began
        self._began: float | None = None  # the first run
        self._listens = False
        self.total, self.done = 0, 0

    def listen(self, logger: logging.Logger | None) -> "StudyProgress":
        """Take Snakemake's events, and its ordinary lines off the terminal; its log keeps them. None: show nothing.

        A log that a full disk cuts short prints no traceback: the lines of the jobs count.
        """
        if logger is not None:
            logging.raiseExceptions = False
            self._listens = True
            logger.addHandler(self)
            for handler in logger.handlers:
                if handler.name == "DefaultStreamHandler":
                    handler.addFilter(OnlyProblems())
        return self

    def begin(self) -> None:
        """Show the live line."""
        if self._listens:
            self._line.start()

    def end(self) -> None:
        """Remove it."""
        if self._listens:
            self._line.stop()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record of Snakemake's logger."""
        with suppress(OSError, ValueError, KeyError, AttributeError, StudyError):
            self._take(getattr(getattr(record, "event", None), "name", ""), vars(record))

    def _take(self, event: str, facts: dict[str, Any]) -> None:
        if event == "RUN_INFO":
            self.total = int(facts["stats"].get("measure", 0))
        elif event == "JOB_INFO":
            name = _record_of(facts["output"]) if facts["rule_name"] == "measure" else facts["rule_name"]
            self._jobs[facts["jobid"]] = name, time.monotonic()
            if self._began is None and name.endswith(RECORD):
                self._began = time.monotonic()
        elif event == "JOB_FINISHED":
            name, _ = self._jobs.pop(facts["job_id"], ("", 0.0))
            if name.endswith(RECORD):
                self.done += 1
                left = f" · {self.left_text()}" if not self._line.live else ""
                self._line.line(run_line(f"[{self.done}/{self.total}] {_words(name)}", read_record(Path(name))) + left)
        elif event == "JOB_ERROR":
            self._jobs.pop(facts.get("jobid", facts.get("job_id", -1)), None)
        if line := job_error_line(event, facts):
            self._line.line(line)

    def left_text(self) -> str:
        """How long the runs that are left take, by the finished ones, in words."""
        if self.done >= self.total:
            return "programs, tables and report are left"
        if not self.done or self._began is None:
            return "time left: known after the first run"
        passed = time.monotonic() - self._began
        return f"about {duration((self.total - self.done) * passed / self.done)} of measuring left"

    def text(self) -> str:
        """The live line."""
        jobs = [f"{_words(name)}, {duration(time.monotonic() - began)}" for name, began in list(self._jobs.values())]
        running = f" · now {jobs[0]}" + (f" and {len(jobs) - 1} more" if len(jobs) > 1 else "") if jobs else ""
        return f"{self.done} of {self.total} runs · {self.left_text()}{running}"


def _record_of(output: Sequence[object]) -> str:
    return str(output[0]).removesuffix(" (update)")


def _words(name: str) -> str:
    """A job's name on the terminal: of a run, in words."""
    if not name.endswith(RECORD):
        return name
    run = parse_run(name)
    return f"{run.cell.device} {run.cell.workload} {run.cell.name} r{run.repeat}"


def answer_lines(root: str, width: int | None = None) -> list[str]:
    """The report's first screen for a terminal of this width; empty without tables."""
    from whichdevice.decide.words import study_text
    from whichdevice.study.results import StudyResults

    folder = Path(root)
    if not (folder / "tables" / "forecasts.csv").is_file():
        return []
    study = StudyResults(folder / "config.yaml", folder / "tables")
    return study_text(study.answers, width or get_terminal_size((120, 24)).columns)


def closing_lines(plan: StudyPlan) -> list[str]:
    """Return what a person reads at the end: how the runs ended, what was left out, and where the page is."""
    states = (run_status(record) for record in plan.records(plan.in_reach()))
    statuses = Counter(status for status in states if status is not None)
    total, refused, ok = sum(statuses.values()), statuses.pop("refused", 0), statuses.pop("ok", 0)
    failed, words = total - refused - ok, list[str]()
    if total and ok == total:
        words.append(f"All {total} runs are ok.")
    elif total:
        named = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        words.append(f"{failed} of {total} runs failed ({named})." if failed else "No run failed.")
        words += [f"{refused} of {total} runs refused: they did not fit this host."] * bool(refused)
        again = " and ".join(["failed runs"] * bool(failed) + ["refused runs that now fit"] * bool(refused))
        words.append(f"The report says why. To repeat {again}: {repeat_failed(plan.study)}")
    for platform, reason in plan.missing.items():
        if count := sum(plan.platform(run) == platform and run.cell.device not in plan.absent for run in plan.runs):
            words.append(f"{count} runs left out: {reason}.")
    page = f"{plan.study.root}/report.html"
    return [" ".join(words)] * bool(words) + [f"Report: {page}"] * Path(page).is_file()


def stopped_lines(plan: StudyPlan) -> list[str]:
    """Return the lines about jobs that ended without their output: cancelled, killed, or lost with their node."""
    wanted, root, lines = plan.wanted(), plan.study.root, list[str]()
    lost = [run.path for run in wanted if not Path(plan.record(run)).is_file()]
    if is_full(None, Path(root)):
        lines = [f"No room left on the disk of {root}: make some. The same call again goes on with what is missing."]
    elif lost:
        how = "not started, cancelled, or lost with their node. The same call again goes on with them."
        lines = [f"No record of {len(lost)} of {len(wanted)} runs (first: {lost[0]}): {how}"]
    return [*lines, f"The study stopped; finished runs are kept. Logs: {root}/logs"]


def job_error_line(event: str, facts: dict[str, Any]) -> str:
    """The line for what Snakemake reports of a failed job or group of jobs; empty for anything else."""
    text, end, _ = str(facts.get("rule_msg") or "").partition(END)
    if event == "JOB_ERROR" and end:
        output, logs = next(iter(facts["output"]), facts["rule_name"]), facts["log"]
    elif event == "GROUP_ERROR":
        output, text, logs = f"jobs of group {facts['groupid']}", "failed", facts["aux_logs"]
    else:
        return ""
    text = shorten(text.partition("sbatch call:")[0] or "failed", MAX_CHARACTERS, placeholder=" ...")
    log = f" (log: {os.path.relpath(logs[-1])})" if logs and logs[-1] and Path(logs[-1]).is_file() else ""
    return f"{_record_of([output])}: {text}{log}"
