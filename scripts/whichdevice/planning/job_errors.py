"""What a scheduler says of a lost, cancelled or rejected job, in one line.

Snakemake's own block about it is left out with the rules (`quiet`), and the job's own words are in the scheduler's log.
"""

import logging
import os
import sys
from pathlib import Path
from textwrap import shorten
from typing import Any

LONGEST = 300  # characters
# How Snakemake ends what it says of any job of a scheduler; of a job of this host it says nothing of the kind.
END = "For further error details see the cluster/cloud log"


class JobErrors(logging.Handler):
    """Prints a line for each failed job of a scheduler; a job of this host speaks for itself."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record of Snakemake's logger."""
        if line := job_error_line(getattr(getattr(record, "event", None), "name", ""), vars(record)):
            print(line, file=sys.stderr)


def job_error_line(event: str, facts: dict[str, Any]) -> str:
    """The line for what Snakemake tells of a failed job or group of jobs; nothing for anything else."""
    said, end, _ = str(facts.get("rule_msg") or "").partition(END)
    if event == "JOB_ERROR" and end:
        what, logs = next(iter(facts["output"]), facts["rule_name"]), facts["log"]
    elif event == "GROUP_ERROR":
        what, said, logs = f"jobs of group {facts['groupid']}", "failed", facts["aux_logs"]
    else:
        return ""
    said = shorten(said.partition("sbatch call:")[0] or "failed", LONGEST, placeholder=" ...")
    log = f" (log: {os.path.relpath(logs[-1])})" if logs and logs[-1] and Path(logs[-1]).is_file() else ""
    return f"{what.removesuffix(' (update)')}: {said}{log}"


def show_job_errors(snakemake_logger: logging.Logger) -> None:
    """Print such lines from now on."""
    snakemake_logger.addHandler(JobErrors(logging.ERROR))
