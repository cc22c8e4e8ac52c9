"""Cards of machine and software: one for each distinct set that ran."""

from typing import Any, NamedTuple

import pandas as pd

CARD = {
    "device": "Device",
    "device_name": "Device name",
    "device_count": "Devices used",
    "cpu": "Processor",
    "threads": "Threads",
    "physical_cores": "Physical cores",
    "host_memory": "Memory",
    "operating_system": "Operating system",
    "driver": "Driver",
    "python": "Python",
    "versions": "Libraries",
    "flags": "Settings",
    "meter": "Energy meter",
    "git_commit": "Commit",
    "code_hash": "Measuring code",
}
KEY = [name for name in CARD if name != "code_hash"]  # what tells cards apart
Key = tuple[Any, ...]


class Card(NamedTuple):
    """A machine with its software: number on the page, from 1, and lines."""

    number: int
    lines: list[tuple[str, str]]


def machine_cards(runs: pd.DataFrame) -> dict[Key, Card]:
    """The cards by key, in the order of their first runs."""
    ran = runs[(runs["status"] != "not_measured") & runs["started"].notna()]
    found: dict[Key, Card] = {}
    for _, rows in ran.groupby(KEY, sort=False, dropna=False):
        first = rows.iloc[0]
        lines = [(title, text) for name, title in CARD.items() if (text := _written(name, rows[name].dropna()))]
        lines.append(("Runs", f"{len(rows)}, {rows['started'].min()} to {rows['started'].max()} UTC"))
        found[machine_key(first)] = Card(len(found) + 1, lines)
    return found


def machine_key(row: pd.Series) -> Key:
    """What the card of a row of `runs` is found by."""
    return tuple(None if pd.isna(row[name]) else row[name] for name in KEY)


def _written(name: str, values: pd.Series) -> str:
    """The value of a card's line; of code, which each workload has of its own, every one."""
    return ", ".join(f"{value / 2**30:.1f} GiB" if name == "host_memory" else str(value) for value in values.unique())
