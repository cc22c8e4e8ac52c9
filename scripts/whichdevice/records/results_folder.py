"""Which records a study's results hold: its own, and those merged from elsewhere that still count."""

import json
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
    """The records of a results folder, own ones before merged ones of the same run, or all below any other folder."""
    own, merged = folder / OWN, folder / MERGED
    if not (own.is_dir() or merged.is_dir()):
        return sorted(folder.rglob(RECORD))
    brought = [(path, own / path.relative_to(part)) for part in counted_sources(merged) for path in part.rglob(RECORD)]
    return sorted([*own.rglob(RECORD), *(path for path, here in brought if not here.is_file())])
