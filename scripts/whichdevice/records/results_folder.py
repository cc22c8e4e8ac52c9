"""Which records a study's results hold: its own, and those merged from elsewhere that still count."""

import json
import re
from datetime import datetime
from pathlib import Path, PurePosixPath

OWN, MERGED, RECORD = "runs", "merged", "record.json"
COUNTED = "counted.json"  # in `merged`: the sources that the last call named
MOST_COUNTED_BYTES = 2**20  # of counted.json, which may come from elsewhere
SOURCE = re.compile(r"[A-Za-z0-9]+")


def counted_sources(merged: Path) -> list[Path]:
    """The folders below `merged` whose records count; all of them where nothing readable says which."""
    try:
        ids = counted_ids((merged / COUNTED).read_bytes())
    except OSError:
        ids = None
    if ids is None:
        ids = sorted(path.name for path in merged.glob("*") if path.is_dir())
    return [merged / name for name in ids]


def counted_ids(content: bytes) -> list[str] | None:
    """The names of the sources that count; None where it is of an earlier version, or damaged."""
    try:
        names = [PurePosixPath(str(name)).name for name in json.loads(content)]
    except (ValueError, TypeError, RecursionError):
        return None
    return [name for name in names if SOURCE.fullmatch(name)]


def counts(name: str, ids: list[str] | None) -> bool:
    """Whether a file of a results folder, by its name below it, is of a merged source that counts, or of no source."""
    folder, _, rest = name.partition("/")
    return folder != MERGED or ids is None or rest.partition("/")[0] in ids


def record_paths(folder: Path) -> list[Path]:
    """The records of a results folder, one of each run, or all below any other folder.

    An own one comes before merged ones of its run, and of these the one that ended last, as in the study's tables.
    """
    own, merged = folder / OWN, folder / MERGED
    if not (own.is_dir() or merged.is_dir()):
        return sorted(folder.rglob(RECORD))
    places: dict[Path, list[Path]] = {path.relative_to(own): [path] for path in own.rglob(RECORD)}
    here = set(places)
    for source in counted_sources(merged):
        for path in source.rglob(RECORD):
            if (run := path.relative_to(source)) not in here:
                places.setdefault(run, []).append(path)
    return sorted(paths[0] if len(paths) == 1 else max(paths, key=_file_ended) for paths in places.values())


def ended(content: bytes) -> float:
    """When the run of a record ended, in seconds since 1970; 0 for one that cannot be read."""
    try:
        return datetime.fromisoformat(json.loads(content)["ended"]).timestamp()
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 0.0


def _file_ended(path: Path) -> float:
    try:
        return ended(path.read_bytes())
    except OSError:
        return 0.0
