"""Which runs `retry=failed` takes."""

from pathlib import Path

from whichdevice.cells import Run
from whichdevice.config.model import Study
from whichdevice.host.memory import available_memory
from whichdevice.planning.closing import run_status
from whichdevice.records.store import read_record


def is_to_be_repeated(study: Study, run: Run) -> bool:
    """Whether a run's record says that it failed, or that it was refused for memory that there is by now."""
    status = run_status(study, run)
    return _would_fit(study, run) if status == "refused" else status not in (None, "ok")


def _would_fit(study: Study, run: Run) -> bool:
    """Whether this host has as much memory left as the run was expected to need; a scheduler's node may have."""
    facts = read_record(Path(run.record(study))).workload
    if facts is None:  # too many weights to build the model: the next try says so within seconds
        return True
    return study.run_on == "all" or facts.estimated_memory <= available_memory()
