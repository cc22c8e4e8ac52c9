"""How numbers, times, sizes and prices are written for people, and read: the only place.

Exact values are in tables and records.
"""

import contextlib
import math
import re
from collections.abc import Callable
from typing import Any

TIMES = (("days", 86400.0, 3.0), ("h", 3600.0, 2.0), ("min", 60.0, 2.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1.0))
BYTE_SIZES = (("GiB", 2**30), ("MiB", 2**20))
TRUTH = {"true": True, "false": False}
PLAIN = re.compile(
    r"-?((0|[1-9][0-9]*)(\.[0-9]+)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
)  # YAML reads 1e-3 as text: it must count here


def number(value: float) -> str:
    """Three significant digits, thousands apart, no exponent: `0.0123`, `53.1`, `43,950`."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 1e-7:
        return f"{value:.2g}"
    return f"{float(f'{value:.3g}'):.10f}".rstrip("0").rstrip(".")


def counted(count: int, noun: str) -> str:
    """A number of things: `1 device`, `10 devices`, `2 processes`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def percent(value: float) -> str:
    """A share of 1 in per cent: `12.3 %`."""
    return f"{number(float(f'{100 * value:.3g}'))} %"


def quality(value: float) -> str:
    """A metric or a loss, with four decimals: `0.9871`."""
    return f"{value:.4f}" if abs(value) < 10 else number(value)


def seconds(value: float) -> str:
    """A measured or forecast time in the unit that suits it, three significant digits: `1.23 ms`, `45.6 s`, `3.5 h`."""
    for unit, one, least in TIMES:
        if value >= least * one:
            return f"{number(value / one)} {unit}"
    return f"{number(value * 1e6)} µs"


def duration(value: float) -> str:
    """Seconds that a person waits, roughly: `40 s`, `3 min`, `1 h 20 min`."""
    if value < 90:
        return f"{value:.0f} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def size(value: float) -> str:
    """Bytes in the binary unit that suits them: `15.6 GiB`."""
    for unit, one in BYTE_SIZES:
        if value >= one:
            return f"{number(value / one)} {unit}"
    return f"{number(value / 2**10)} KiB"


def price(value: float) -> str:
    """US dollars: two decimals as clouds list them, below ten cents three digits, whole from a thousand on."""
    if value < 0.1:
        return number(value)
    return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"


LARGEST = {"µs": (1e-3, 1e-6), "ms": (1, 1e-3), "s": (90, 1), "min": (90 * 60, 60), "h": (3 * 86400, 3600)}  # of a unit


def time_words(seconds: float, rough: bool = False, like: float | None = None) -> str:
    """Return a time for a person, in two digits: `20 s`, `25 min`, `3.4 h`, `47 h`, `11 days`; rough ones say `about`.

    The unit suits `like`, if given.
    """
    for unit, (limit, one) in (LARGEST | {"days": (730 * 86400, 86400)}).items():
        if (seconds if like is None else like) < limit:
            return f"{'about ' if rough else ''}{two(seconds / one, rough)} {unit}"
    return "years"


def two(value: float, rough: bool = False) -> str:
    """Two significant digits, one where rough: `1.3`, `47`, `120`."""
    return f"{float(f'{value:.{1 if rough else 2}g}'):,.10g}"


def usd_words(usd: float) -> str:
    """US dollars in cents below 10 and in whole ones above: `0`, `<0.01`, `0.35`, `14`, `1,200`."""
    if usd < 0.005:
        return "<0.01" if usd > 0 else "0"
    return f"{usd:.2f}" if usd < 10 else f"{math.floor(float(f'{usd:.3g}') + 0.5):,}"


def between(low: float | None, high: float | None, written: Callable[[float], str]) -> str:
    """` [34–64 h]`, both ends in one unit; empty where they read the same."""
    if low is None or high is None:
        return ""
    return "" if written(low) == written(high) else f" [{ends_in_words(low, high, written)}]"


def ends_in_words(low: float, high: float, written: Callable[[float], str]) -> str:
    """`34–64 h`, both ends in one unit; one of them where they read the same."""
    first, last = written(low), written(high)
    (one, _, _), (other, _, unit) = first.partition(" "), last.partition(" ")
    return last if first == last else f"{one}–{other} {unit}".rstrip()


def from_text(value: Any) -> Any:
    """The number or truth value that a text holds; anything else comes back as it was."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() in TRUTH:
        return TRUTH[value.strip().lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(value)
    return value


def plain_from_text(value: Any) -> Any:
    """Read as `from_text` does, but leave what no one writes for a number, such as 00123 or 1_000."""
    plain = not isinstance(value, str) or value.lower() in TRUTH or PLAIN.fullmatch(value)
    return from_text(value) if plain else value
