"""Show one run while it is measured, and how it ended."""

import time
from collections.abc import Callable, Mapping
from typing import IO, Any, Self

from whichdevice.base.numbers import duration, number, quality
from whichdevice.base.numbers import seconds as time_text
from whichdevice.base.terminal import LiveLine
from whichdevice.measure.record import Record
from whichdevice.study.cells import Run

QUIET_SECONDS = 10.0  # between two lines of the same phase where the output is no terminal


class Progress:
    """Show one run: where it is on a live line, on a few plain lines without a terminal; then how it ended."""

    def __init__(self, run: Run, number: int, of: int, stream: IO[str] | None = None) -> None:
        cell = run.cell
        self._title = f"[{number}/{of}] {cell.device} {cell.workload} {cell.name} r{run.repeat}"
        self._line, self._now = LiveLine(lambda: self._now, stream), self._title
        self._said = ("", 0.0)

    def phase(self, phase: str, values: Mapping[str, Any] | None = None) -> None:
        """Say where the run is."""
        values = values or {}
        self._now = " · ".join([f"{self._title}: {phase}", *_details(values)])
        key = f"{phase} {values.get('epoch', '')}"
        if self._line.live:
            self._line.start()
        elif key != self._said[0] or time.monotonic() - self._said[1] >= QUIET_SECONDS:
            self._said = (key, time.monotonic())
            self._line.line(self._now)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.stop()

    def done(self, record: Record) -> None:
        """Print how the run ended."""
        self._line.stop()
        self._line.line(run_line(self._title, record))


def run_line(title: str, record: Record) -> str:
    """How a run ended: status or reason, step time, throughput, and how long it took."""
    text = f"{title}: {record.status}"
    if record.status != "ok":
        text += f": {record.reason}"
    elif record.steady.step_time is not None and record.workload is not None:
        rate = f"{number(record.steady.throughput or 0.0)} {record.workload.unit}s/s"
        text += f" · {time_text(record.steady.step_time)}/step · {rate}"
    return f"{text} · took {duration((record.ended - record.started).total_seconds())}"


def _details(values: Mapping[str, Any]) -> list[str]:
    words: dict[str, Callable[[Any], str]] = {
        "epoch": lambda epoch: f"epoch {epoch}/{values['epochs']}",
        "step_time": lambda seconds: f"{time_text(seconds)}/step",
        "loss": lambda loss: f"loss {quality(loss)}",
        "metric": lambda metric: f"metric {quality(metric)}",
        "seconds_left": lambda seconds: f"{duration(seconds)} left",
    }
    return [worded(values[name]) for name, worded in words.items() if values.get(name) is not None]
