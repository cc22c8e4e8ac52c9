"""The time left until an answer, and the line that says it."""

import io
import time
from collections.abc import Callable

from whichdevice.base.numbers import duration
from whichdevice.base.terminal import Countdown, LiveLine

BUDGET = 20.0  # seconds for all that is measured here; no further process where the whole answer would take longer
PROGRAM_SECONDS = 6.0  # of a count, a guess until the first one is finished


class TimeLeft:
    """One time left for forecasting and measuring together. What it shows never rises by more than a fifth."""

    def __init__(self) -> None:
        self.forecasts, self.processes = Countdown(0, PROGRAM_SECONDS), Countdown(1, BUDGET)
        self._began = time.monotonic()
        self._least: float | None = None
        self._lines: list[LiveLine] = []

    @property
    def passed(self) -> float:
        """Seconds since the question."""
        return time.monotonic() - self._began

    @property
    def rows(self) -> int:
        """How many rows of the terminal its lines have taken that stay."""
        return sum(line.rows for line in self._lines)

    def words(self) -> str:
        """`about 40 s left`, or that it takes longer than was shown."""
        left = self.forecasts.left + self.processes.left
        self._least = left if self._least is None else min(self._least, left)
        most = 1.2 * self._least
        return f"about {duration(left)} left" if left <= most else f"more than {duration(most)} left"

    def line(self, doing: Callable[[], str], brief: str) -> LiveLine:
        """Return a live line of what is done now; without a terminal one line that stays, `brief`."""
        line = LiveLine(lambda: f"{doing()} · {self.words()}")
        self._lines.append(line)
        if not line.live:
            line.line(brief)
        return line


class Waits(io.StringIO):
    """Standard error of what counts, of which only why it waits is shown."""

    def __init__(self, line: LiveLine) -> None:
        super().__init__()
        self._line = line

    def write(self, text: str) -> int:
        """Show the line of a wait."""
        if "waiting for another" in text:
            self._line.line(text)
        return len(text)
