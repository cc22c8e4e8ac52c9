"""Tell about how long each run takes before anything runs.

The records of the same cell say it where there are any; else the config's limits do: steps are taken to fit them.
Nothing is imported or run for it.
"""

import math
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from whichdevice.base.errors import StudyError
from whichdevice.measure.record import Record
from whichdevice.measure.timing import WARM_UP_SHARE, warm_up_steps
from whichdevice.study.cells import Cell, Run
from whichdevice.study.config.model import Study
from whichdevice.study.records.store import read_record
from whichdevice.study.request import build_request, planned_record

START_SECONDS = 7.0  # a process with TensorFlow and Keras imported, on two cores
FIRST_STEP_SECONDS = 2.5  # tracing
RUN_BYTES = 600_000  # record, log and predictions
COUNT_SECONDS = 0.1  # a forecast: a count of a second or less serves all devices
REDRAW_SECONDS = 30.0  # tables, figures and report


class Estimate(NamedTuple):
    """The time of a run, and whether nothing bounds it: it learns for epochs of unknown length."""

    seconds: float
    at_least: bool


def estimate_run(study: Study, run: Run) -> Estimate:
    """Seconds of one run."""
    request, earlier = build_request(study, run), _earlier(study, run.cell)
    times = [record.steady.step_time for record in earlier if record.steady.step_time is not None]
    step, learning = median(times) if times else 0.0, 0.0
    timed = max(request.seconds, request.min_steps * step)
    warm = max(WARM_UP_SHARE * request.seconds, warm_up_steps(step, request.seconds) * step)
    phases = 2 if request.mode == "generate" else 1  # the prompts are timed apart
    if request.learn:
        facts = earlier[-1].workload if earlier else None
        epochs = request.epochs * facts.steps_per_epoch * step if facts is not None else math.inf
        learning = min(epochs, request.learn_seconds or math.inf)
    seconds = START_SECONDS + phases * (FIRST_STEP_SECONDS + step + warm + timed)
    seconds += learning if learning < math.inf else 0.0
    return Estimate(min(seconds, request.timeout), learning == math.inf)


def _earlier(study: Study, cell: Cell) -> list[Record]:
    """Return records with a time of this cell, oldest first, also by other code or with other settings."""
    records = []
    for repeat in range(1, study.measure.repeats + 1):
        for path in Path(planned_record(study, Run(cell, repeat))).parents[1].glob("*/record.json"):
            with suppress(StudyError):
                records.append(read_record(path))
    return sorted((record for record in records if record.steady.step_time is not None), key=lambda one: one.started)
