"""What the config forgives: text for numbers, one value for a list, a key without a value.

Snakemake hands over everything inside `--config 'key={...}'` as text, so each type reads its own text.
"""

import contextlib
import re
from typing import Any

TRUTH = {"true": True, "false": False}
NOTHING = {"", "null", "~"}
PLAIN = re.compile(
    r"-?((0|[1-9][0-9]*)(\.[0-9]+)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
)  # YAML reads 1e-3 as text: it must count here


def from_text(value: Any) -> Any:
    """The number or truth value that a text holds; anything else comes back as it was."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() in TRUTH:
        return TRUTH[value.strip().lower()]
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(value)
    return value


def plain_from_text(value: Any) -> Any:
    """As `from_text` where text may be meant: what no one writes for a number, such as 00123 or 1_000, stays."""
    plain = not isinstance(value, str) or value.lower() in TRUTH or PLAIN.fullmatch(value)
    return from_text(value) if plain else value


def whole_from_text(value: Any) -> Any:
    """The whole number that a text holds in its one plain form; any other text stays as it is."""
    return from_text(value) if isinstance(value, str) and re.fullmatch("0|-?[1-9][0-9]*", value) else value


def text(value: Any) -> Any:
    """What YAML or the command line took for a number, as text again."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def no_number(value: Any) -> Any:
    """A name as it is; one that YAML or the command line read as a number may have been written as another."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"names {value}, which was read as a number: begin the name with a letter")
    return value


def many(value: Any) -> Any:
    """One value as a list of one."""
    return value if isinstance(value, list | dict) or value is None else [value]


def without_repeats(values: list[Any]) -> list[Any]:
    """The list as it is; a value that stands in it twice is an error."""
    twice = [value for position, value in enumerate(values) if value in values[:position]]
    if twice:
        raise ValueError(f"lists {twice[0]} twice; once is enough")
    return values


def tidy(values: Any, optional: set[str]) -> Any:
    """A mapping whose empty keys are None if they are in `optional` and gone if not; nothing is an empty mapping."""
    if values is None:
        return {}
    if not isinstance(values, dict):
        return values
    plain = {str(key): None if _is_nothing(value) else value for key, value in values.items()}
    return {key: value for key, value in plain.items() if value is not None or key in optional}


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip() in NOTHING)
