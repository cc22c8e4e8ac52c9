"""Records that a call is about to replace because they were measured with other settings."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from whichdevice.cells import parse_run
from whichdevice.config.faults import brief
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.measuring.request import build_request
from whichdevice.records.request import Request
from whichdevice.records.store import read_record


def replaced_line(study: Study, records: Iterable[str]) -> str:
    """What a person reads before runs with these records start; nothing where none was measured with other settings.

    Options of one call alone, such as `--config 'data={dir: DIR}'`, are easily forgotten in the next one.
    """
    changed = [(path, changes) for path in records if (changes := changed_settings(study, path))]
    if not changed:
        return ""
    path, changes = changed[0]
    some = f"{len(changed)} finished record{'s were' if len(changed) > 1 else ' was'}"
    return (
        f"{some} measured with other settings and will be measured again (first: {path}: {', '.join(changes)}). "
        "To keep them, stop and repeat the --config options of that call, or take another study: --config study=NAME"
    )


def changed_settings(study: Study, record: str) -> list[str]:
    """What the study asks of a run otherwise than its record was asked, each as `name old -> new`."""
    try:
        before = _settings(read_record(Path(record)).asked)
    except StudyError:  # none, or one that nobody can read: nothing is lost
        return []
    now = _settings(build_request(study, parse_run(record)))
    return [
        f"{name} {brief(before.get(name))} -> {brief(value)}"
        for name, value in now.items()
        if before.get(name) != value
    ]


def _settings(asked: Request) -> dict[str, Any]:
    return asked.model_dump(mode="json", exclude={"timeout"})  # which changes no number
