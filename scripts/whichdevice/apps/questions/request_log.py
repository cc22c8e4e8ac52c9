"""A log of requests of the user's own: when each arrived, tokens of its prompt and of its answer.

    arrival,prompt,answer                                 CSV: seconds, or a time such as 2026-11-26T13:00:00
    {"arrival": 0.4, "prompt": 812, "answer": 96}         or JSON, one request a line

It is read and never kept.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError

# Names of the columns in well-known public logs, too.
NAMES = {
    "arrival": ("arrival", "arrived", "time", "timestamp"),
    "prompt": ("prompt", "prompt_tokens", "input_tokens", "input_length", "contexttokens"),
    "answer": ("answer", "answer_tokens", "output_tokens", "completion_tokens", "output_length", "generatedtokens"),
}
EXAMPLE = "arrival,prompt,answer"
MAX_TOKENS = 10_000_000
MIN_REQUESTS = 2


@dataclass(frozen=True)
class RequestLog:
    """Requests in the order of their arrival, in seconds from the first."""

    arrivals: tuple[float, ...]
    prompts: tuple[int, ...]
    answers: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """The seconds from the first arrival to the last."""
        return self.arrivals[-1]

    @property
    def rps(self) -> float:
        """Requests a second, on average."""
        return (len(self.arrivals) - 1) / self.seconds


def read_requests(path: Path) -> RequestLog:
    """Return the log; raises StudyError that names the first line that is none."""
    requests: list[tuple[float, int, int]] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for line, values in _lines(path, file):
                where = f"--requests {path.name}, line {line}"
                entry = {name: _value(values, name, where) for name in NAMES}
                requests.append((entry["arrival"], int(entry["prompt"]), int(entry["answer"])))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise StudyError(f"--requests {path}: cannot be read: {reason}") from None
    if len(requests) < MIN_REQUESTS or len({arrival for arrival, _, _ in requests}) < MIN_REQUESTS:
        raise StudyError(f"--requests {path}: two requests at different times are needed")
    requests.sort()
    first = requests[0][0]
    arrivals, prompts, answers = zip(*requests, strict=True)
    return RequestLog(tuple(arrival - first for arrival in arrivals), prompts, answers)


def _lines(path: Path, file: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Values by name with the number of their line."""
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                values = json.loads(text)
            except ValueError:
                values = None
            if not isinstance(values, dict):
                raise StudyError(
                    f"--requests {path.name}, line {number}: is no JSON object; "
                    'write one request a line: {"arrival": 0.4, "prompt": 812, "answer": 96}'
                )
            yield number, {name.lower(): value for name, value in values.items()}
        return
    reader = csv.DictReader(file, restkey="", restval=None)
    columns = [name.strip().lower() for name in reader.fieldnames or ()]
    for name, names in NAMES.items():
        if not set(names) & set(columns):
            raise StudyError(f"--requests {path.name}: no column {name}; the first line must be {EXAMPLE}")
    reader.fieldnames = columns
    for row in reader:
        yield reader.line_num, row


def _value(values: Mapping[str, Any], name: str, where: str) -> float:
    """The number of this name; raises StudyError where it is none."""
    text = next((values[known] for known in NAMES[name] if values.get(known) is not None), None)
    if name == "arrival":
        number = _time(text)
        if number is None:
            raise StudyError(f"{where}: arrival is {_shown(text)}; it must be seconds or a time: 2026-11-26T13:00:00")
        return number
    number = _number(text)
    if number is None or number != int(number) or not (name == "answer" or number) or number > MAX_TOKENS:
        raise StudyError(f"{where}: {name} is {_shown(text)}; it must be a number of tokens, e.g. 812")
    return number


def _shown(text: Any) -> str:
    return "empty" if text in (None, "") else repr(str(text)[:40])


def _time(text: Any) -> float | None:
    number = _number(text)
    if number is not None or not isinstance(text, str):
        return number
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _number(text: Any) -> float | None:
    if isinstance(text, bool):
        return None
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number >= 0 else None
