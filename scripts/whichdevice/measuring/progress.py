"""What a person sees while a run goes on: which run of how many, phase, epoch, step time, seconds left."""

import contextlib
import sys
import time
from collections.abc import Mapping
from typing import IO, Any

from whichdevice.cells import Run
from whichdevice.records.schema import Record
from whichdevice.terminal import rounded

QUIET_SECONDS = 10.0  # between two lines of the same phase where the output is no terminal


class Progress:
    """Lines for one run; on a terminal they overwrite each other, elsewhere few are written."""

    def __init__(self, run: Run, number: int, of: int, stream: IO[str] | None = None) -> None:
        cell = run.cell
        self._title = f"[{number}/{of}] {cell.device} {cell.workload} {cell.name} r{run.repeat}"
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._said = ("", 0.0)

    def phase(self, phase: str, values: Mapping[str, Any] | None = None) -> None:
        """Say where the run is."""
        values = values or {}
        key = f"{phase} {values.get('epoch', '')}"
        if not self._live and key == self._said[0] and time.monotonic() - self._said[1] < QUIET_SECONDS:
            return
        self._said = (key, time.monotonic())
        self._write(" · ".join([f"{self._title}: {phase}", *_details(values)]), last=False)

    def done(self, record: Record) -> None:
        """Print how the run ended."""
        self._write(run_line(self._title, record), last=True)

    def _write(self, line: str, last: bool) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads any more: no reason to lose the run
            self._show(line, last)

    def _show(self, line: str, last: bool) -> None:
        if self._live:
            self._stream.write(f"\r\033[2K{line}" + ("\n" if last else ""))
        else:
            self._stream.write(line + "\n")
        self._stream.flush()


def run_line(title: str, record: Record) -> str:
    """How a run ended: status or reason, step time, throughput, and how long it took."""
    text = f"{title}: {record.status}"
    if record.status != "ok":
        text += f": {record.reason}"
    elif record.steady.step_time is not None and record.workload is not None:
        rate = f"{rounded(record.steady.throughput or 0.0)} {record.workload.unit}s/s"
        text += f" · {step_time_text(record.steady.step_time)} · {rate}"
    return f"{text} · took {(record.ended - record.started).total_seconds():.0f} s"


def _details(values: Mapping[str, Any]) -> list[str]:
    details = []
    if values.get("epoch") is not None:
        details.append(f"epoch {values['epoch']}/{values['epochs']}")
    if values.get("step_time") is not None:
        details.append(step_time_text(values["step_time"]))
    if values.get("loss") is not None:
        details.append(f"loss {values['loss']:.4f}")
    if values.get("metric") is not None:
        details.append(f"metric {values['metric']:.4f}")
    if values.get("seconds_left") is not None:
        details.append(f"{values['seconds_left']:.0f} s left")
    return details


def step_time_text(seconds: float) -> str:
    """A step time in the unit that suits it."""
    if seconds >= 1:
        return f"{seconds:.2f} s/step"
    return f"{seconds * 1e3:.3g} ms/step" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs/step"
