"""A question about one model: its steps are counted and forecast for each device, and measured here if that is wanted.

asked = OneModel(question, targets)
asked.forecast()
asked.measure()
answers = asked.answers()
"""

import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from typing import Any

from whichdevice.apps.questions.question import (
    Here,
    Question,
    check,
    config_name,
    requests_of,
    with_objective,
)
from whichdevice.apps.questions.time_left import PROGRAM_SECONDS, TimeLeft, Waits
from whichdevice.base.numbers import counted
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import price_sheet
from whichdevice.base.terminal import Countdown
from whichdevice.decide import Answer, answers
from whichdevice.forecast.answer import Forecast, forecast_of
from whichdevice.forecast.counting import count_steps
from whichdevice.forecast.known import known_record
from whichdevice.forecast.products import CompiledRecord, ProgramRequest
from whichdevice.forecast.targets import Target

SHOWN_EVERY = 1.5  # seconds between two records from which on the first one is worth a drawing


@dataclass
class OneModel:
    """The question about one model on these devices; raises StudyError on a wrong file, batch, option or mode."""

    question: Question
    targets: Sequence[Target]
    gpus: Sequence[int] = (1,)
    left: TimeLeft = field(default_factory=TimeLeft)
    here: Here = field(default_factory=Here)
    known: bool = True  # whether steps of well-known names are taken as the package has them
    requests: list[ProgramRequest] = field(init=False)
    records: dict[int, CompiledRecord] = field(init=False, default_factory=dict)  # by the number of the request
    _forecasts: dict[int, Forecast] = field(init=False, default_factory=dict)
    _answered: tuple[Any, list[Answer]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.question = question = with_objective(self.question)
        check(question)
        self.requests = requests_of(question, self.targets, self.gpus)

    def forecast(self, show: Callable[[], object] | None = None) -> None:
        """Count the steps; what was counted before, by any command, is read.

        On a terminal `show` is called where records come one after the other, rather than all at once.
        """
        asked = list(enumerate(self.requests))
        self.left.forecasts = Countdown(len(asked), PROGRAM_SECONDS)
        before = time.monotonic()
        doing = f"forecasting for {counted(len(self.targets), 'device')}"

        with self.left.line(lambda: doing, doing) as line, redirect_stderr(Waits(line)):  # the line says enough

            def know(number: int, record: CompiledRecord) -> None:
                nonlocal before
                self.left.forecasts.finish()
                self.records[number] = record
                apart = time.monotonic() - before > SHOWN_EVERY
                if show is not None and apart and 1 < len(self.records) < len(self.requests):
                    line.above(show)
                before = time.monotonic()

            kept = {number: known_record(request) if self.known else None for number, request in asked}
            for number, record in kept.items():
                if record is not None:
                    know(number, record)
            uncounted = [number for number, record in kept.items() if record is None]
            requests = [self.requests[number] for number in uncounted]
            count_steps(requests, None, lambda n, record: know(uncounted[n], record), self.question.measuring)
        self.left.forecasts.pieces = self.left.forecasts.done

    def measure(self) -> None:
        """Measure the step here, in a few processes within BUDGET seconds, or estimate it. Earlier records are read."""
        from whichdevice.apps.questions.here import measured_here

        self.here = measured_here(self.question, list(self.records.values()), self.left)

    def answers(self) -> list[Answer]:
        """Return the answer for each batch size, by what is known now."""
        known = frozenset(self.records), self.here
        if self._answered is None or self._answered[0] != known:
            self._answered = known, self._answers()
        return self._answered[1]

    def _answers(self) -> list[Answer]:
        for number in self.records.keys() - self._forecasts.keys():
            self._forecasts[number] = forecast_of(self.records[number])
        forecasts = [self._forecasts[number] for number in sorted(self._forecasts)]
        question, here = self.question, self.here
        return answers(
            here.cells, forecasts, question.wants, {}, hardware_rows(prices=price_sheet()), True, here.unmeasured,
            {config_name(question.model): question.options}, question.fixed,
        )  # fmt: skip
