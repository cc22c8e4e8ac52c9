"""A record as log lines of MLPerf Training, which the public package `mlperf-logging` parses.

Keys are those of its `mllog.constants`, and `tracked_stats`, by which submitters state throughput. A record
holds durations, so each time stamp is the run's start plus the parts before it: waits
between parts are left out. These lines are no MLPerf submission: the workloads are not MLPerf's.
"""

import json
from collections.abc import Iterator
from typing import Any

from whichdevice.records.schema import Record
from whichdevice.records.timings import Epoch

TOKEN = ":::MLLOG "  # nosec B105  # begins each line for its parser; no secret
START, END, POINT = "INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"


class Clock:
    """Milliseconds since 1970, moved on by the parts of a run."""

    def __init__(self, record: Record) -> None:
        self.seconds = record.started.timestamp()

    def after(self, *parts: float | None) -> int:
        """The time once these parts, in seconds, are over; missing ones take none."""
        self.seconds += sum(part or 0.0 for part in parts)
        return round(self.seconds * 1e3)


def mlperf_lines(record: Record) -> Iterator[str]:
    """One line per event, in order of time; learning is the MLPerf run, so a record without it has none.

    A run that ended well is a "success" whatever its quality: a record does not know the study's target.
    `eval_accuracy` is MLPerf's key for every quality; which one it is stands beside it.
    """
    for time_ms, event_type, key, value, metadata in _events(record):
        event = {
            "namespace": record.run,
            "time_ms": time_ms,
            "event_type": event_type,
            "key": key,
            "value": value,
            "metadata": metadata,
        }
        yield TOKEN + json.dumps(event)


Event = tuple[int, str, str, Any, dict[str, Any]]


def _events(record: Record) -> Iterator[Event]:
    clock, cold, steady = Clock(record), record.cold, record.steady
    begun = clock.after()
    yield from ((begun, POINT, key, value, {}) for key, value in _facts(record).items() if value is not None)
    yield begun, START, "init_start", None, {}
    ready = clock.after(cold.start, cold.initialise, cold.load, cold.build)
    aborted = None if record.status == "ok" else {"status": "aborted", "why": record.reason}
    ended = round(record.ended.timestamp() * 1e3)
    if aborted and not record.epochs:
        yield ended, END, "init_stop", None, aborted
        return
    yield ready, END, "init_stop", None, {}
    timed = clock.after(cold.first_step, *(seconds for _, seconds in cold.warm_up), steady.seconds)
    speed = {"throughput": steady.throughput, "step_time": steady.step_time, "first_step": cold.first_step}
    if steady.steps:
        yield timed, POINT, "tracked_stats", {k: v for k, v in speed.items() if v is not None}, {"step": steady.steps}
    if record.epochs:
        yield from _learning(record, clock)
        last = clock.after()
        yield max(last, ended) if aborted else last, END, "run_stop", None, aborted or {"status": "success"}


def _facts(record: Record) -> dict[str, Any]:
    asked, facts = record.asked, record.workload
    return {
        "submission_benchmark": asked.module,
        "submission_division": "open",
        "submission_status": "research",
        "submission_platform": record.machine.device_name,
        "seed": asked.seed,
        "global_batch_size": asked.batch_size,
        "max_sequence_length": asked.sequence_length,
        "train_samples": facts.training_examples or None if facts else None,
        "eval_samples": facts.validation_examples or None if facts else None,
    }


def _learning(record: Record, clock: Clock) -> Iterator[Event]:
    yield clock.after(), START, "run_start", None, {}
    for epoch in record.epochs:
        about = {"epoch_num": epoch.epoch}
        yield clock.after(), START, "epoch_start", None, about
        yield clock.after(epoch.seconds), END, "epoch_stop", None, about
        if epoch.validation_seconds is not None:
            yield clock.after(), START, "eval_start", None, about
            over = clock.after(epoch.validation_seconds)
            name, quality = _quality(record, epoch)
            if quality is not None:
                yield over, POINT, "eval_accuracy", quality, {**about, "metric": name}
            yield over, END, "eval_stop", None, about


def _quality(record: Record, epoch: Epoch) -> tuple[str, float | None]:
    """What the workload is judged by: its metric, or the validation loss where it has none."""
    if epoch.validation_metric is not None:
        return (record.workload.metric if record.workload else None) or "metric", epoch.validation_metric
    return "loss", epoch.validation_loss
