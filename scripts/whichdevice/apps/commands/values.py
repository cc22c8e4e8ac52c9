"""Values of options of the commands: numbers, prices and counts, each checked in one line."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.numbers import plain_from_text

LARGEST, LARGEST_USD, LARGEST_TIME = 1e18, 1e6, 1e9  # beyond them a number is a slip
NUMBER = r"[0-9]+\.?[0-9]*|\.[0-9]+"


def prices_of(given: Sequence[str], find: Callable[[str], str] | None = None) -> dict[str, float]:
    """Return the prices that the user names, by device; raises StudyError. `find` gives the device of a name."""
    from whichdevice.forecast.targets import find_target

    prices = {}
    for pair in given:
        name, _, text = pair.rpartition("=")
        if not name or not re.fullmatch(NUMBER, text) or not 0 < float(text) < LARGEST_USD:
            raise StudyError(f'--price {pair}: needs DEVICE=USD, e.g. "RTX 4090=0.45"')
        prices[find(name) if find else find_target(name).device] = float(text)
    return prices


def positive(name: str, value: float | None) -> float | None:
    """Return a number above 0 or None; raises StudyError."""
    if value is not None and not 0 < value < LARGEST:
        raise StudyError(f"{name} {value:g}: a number above 0 is needed")
    return value


def at_least_one(name: str, value: int | None) -> int | None:
    """Return a count or None; raises StudyError."""
    if value is not None and value < 1:
        raise StudyError(f"{name} {value}: a number of at least 1 is needed")
    return value


def gpu_counts(text: str) -> tuple[int, ...]:
    """Return the numbers of GPUs that `--gpus` asks for; raises StudyError."""
    from whichdevice.forecast.targets import GPU_COUNTS, NODES

    known = {str(count): count for count in (*GPU_COUNTS, *NODES)}
    names = list(known) if text == "auto" else [name.strip() for name in text.split(",")]
    if not set(names) <= known.keys():
        raise StudyError(f"--gpus {text}: {', '.join(known)} are possible, several with commas, or auto")
    return tuple(known[name] for name in names)


def given_options(given: list[str]) -> dict[str, Any]:
    """Return KEY=VALUE of the command line as the options of a model's file; raises StudyError."""
    options = {}
    for pair in given:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise StudyError(f"--option {pair}: needs KEY=VALUE, e.g. layers=2")
        options[key] = plain_from_text(text)
    return options
