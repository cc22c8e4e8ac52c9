"""What differs between the machines, software and settings of two sets of runs, in plain words."""

from collections.abc import Iterator

import pandas as pd

from whichdevice.tables.columns import CELL
from whichdevice.tables.measured_values import timed

SINGLE = {
    "device_name": "device",
    "device_count": "devices used",
    "cpu": "processor",
    "threads": "threads",
    "host_memory": "memory",
    "operating_system": "operating system",
    "driver": "driver",
    "python": "Python",
    "type_product": "number format of products",
    "type_sum": "number format of sums",
    "source": "data source",
    "git_commit": "commit",
}
LISTED = {"versions": ("", " "), "flags": ("setting ", "=")}  # column: what stands before a name, and after it
NONE = "none"


def differences(here: pd.DataFrame, there: pd.DataFrame) -> list[str]:
    """A line for each thing that differs over the cells that both of two tables `runs` measured."""
    good = [timed(side) for side in (here, there)]
    good = [side.assign(cell=side[CELL].astype("object").fillna("").agg(tuple, axis="columns")) for side in good]
    common = set(good[0]["cell"]) & set(good[1]["cell"])
    own, other = (side[side["cell"].isin(common)] for side in good)
    return [*_single(own, other), *_listed(own, other), *_code(own, other)] if common else []


def _single(own: pd.DataFrame, other: pd.DataFrame) -> Iterator[str]:
    for column, name in SINGLE.items():
        yield from _difference(name, *(_values(side[column], column) for side in (own, other)))


def _listed(own: pd.DataFrame, other: pd.DataFrame) -> Iterator[str]:
    for column, (before, between) in LISTED.items():
        sides = [_entries(side[column], between) for side in (own, other)]
        for name in sorted({*sides[0], *sides[1]}):
            yield from _difference(f"{before}{name}", *(side.get(name, []) for side in sides))


def _code(own: pd.DataFrame, other: pd.DataFrame) -> Iterator[str]:
    """One hash belongs to one workload and backend, so it is counted rather than shown."""
    hashes = [dict(list(side.groupby("cell")["code_hash"].agg(set).items())) for side in (own, other)]
    changed = sum(found != hashes[1][cell] for cell, found in hashes[0].items())
    if changed:
        yield f"measuring code: another hash in {changed} of {len(hashes[0])} cells"


def _difference(name: str, own: list[str], other: list[str]) -> Iterator[str]:
    if own != other:
        yield f"{name}: {', '.join(own) or NONE} here, {', '.join(other) or NONE} there"


def _values(column: pd.Series, name: str) -> list[str]:
    found = column.dropna().unique().tolist()
    if name == "host_memory":
        return sorted({f"{value / 2**30:.0f} GiB" for value in found})
    return sorted(str(value)[:10] if name == "git_commit" else str(value) for value in found)


def _entries(column: pd.Series, between: str) -> dict[str, list[str]]:
    """Name to its values, over texts such as `keras 3.15.1; numpy 2.4.6`."""
    found: dict[str, set[str]] = {}
    for text in column.dropna().unique():
        for entry in str(text).split("; "):
            name, _, value = entry.partition(between)
            found.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in found.items()}
