"""Which records a study's results hold: its own, and those merged from elsewhere that still count."""

import json
from datetime import datetime
from pathlib import Path, PurePosixPath

OWN, MERGED, RECORD = "runs", "merged", "record.json"
COUNTED = "counted.json"  # in `merged`: the sources that the last call named


def counted_sources(merged: Path) -> list[Path]:
    """The folders below `merged` whose records count; all of them where nothing readable says which."""
    try:
        ids = [str(name) for name in json.loads((merged / COUNTED).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):  # of an earlier version, or damaged
        ids = sorted(path.name for path in merged.glob("*") if path.is_dir())
    return [merged / PurePosixPath(name).name for name in ids]


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
    return sorted(paths[0] if len(paths) == 1 else max(paths, key=_ended) for paths in places.values())


def _ended(path: Path) -> float:
    """When the record's run ended, in seconds since 1970; 0 for one that cannot be read."""
    try:
        return datetime.fromisoformat(json.loads(path.read_text(encoding="utf-8"))["ended"]).timestamp()
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return 0.0
