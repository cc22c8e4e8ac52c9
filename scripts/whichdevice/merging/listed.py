"""Which records of a results folder elsewhere count, by the names of its objects."""

from typing import Any

from whichdevice.cells import Run
from whichdevice.records.foreign import foreign_run
from whichdevice.records.results_folder import (
    COUNTED,
    MERGED,
    MOST_COUNTED_BYTES,
    OWN,
    RECORD,
    counted_ids,
    counts,
)
from whichdevice.storage.failures import explained
from whichdevice.storage.place import Place

FOLDERS = (f"{OWN}/", f"{MERGED}/")  # of a whole results folder; its other records.json are not ours to read
COUNTED_NAME = f"{MERGED}/{COUNTED}"


def counted_there(place: Place, listing: dict[str, dict[str, Any]]) -> list[str] | None:
    """The names of the merged sources that count there; None where nothing readable says which."""
    if COUNTED_NAME not in listing or int(listing[COUNTED_NAME]["size"]) > MOST_COUNTED_BYTES:
        return None
    with explained(place.address):
        return counted_ids(place.fs.cat_file(place.path(COUNTED_NAME)))


def listed_runs(listing: dict[str, dict[str, Any]], ids: list[str] | None) -> dict[Run, list[str]]:
    """The records by their runs; of a whole results folder its own and, of other runs, those merged that count."""
    names = [name for name in listing if name.endswith(f"/{RECORD}") or name == RECORD]
    if any(name.startswith(FOLDERS) for name in names):
        names = [name for name in names if name.startswith(FOLDERS) and counts(name, ids)]
    found: dict[Run, list[str]] = {}
    for name in names:
        if (run := foreign_run(name)) is not None:
            found.setdefault(run, []).append(name)
    return {run: [name for name in several if name.startswith(FOLDERS[0])] or several for run, several in found.items()}
