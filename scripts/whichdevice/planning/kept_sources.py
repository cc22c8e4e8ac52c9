"""Where a study's data come from: decided once and kept in its config.yaml, so that a later call reads the same."""

from collections.abc import Sequence
from pathlib import Path

from whichdevice.config.load import read_study
from whichdevice.config.model import Call, Source
from whichdevice.datasets.base import get_dataset
from whichdevice.datasets.prepare import check_folder, decide_sources, has_archives
from whichdevice.datasets.sources import first_missing
from whichdevice.errors import StudyError


def data_sources(call: Call, names: Sequence[str]) -> dict[str, Source]:
    """The source of each dataset: what the call names, else what was kept, else decided now.

    Archives that were put into `data.dir` since then replace what was taken without them. Raises StudyError where
    `data.dir` is no folder although a source has to be decided.
    """
    known = {
        name: source
        for name, source in _kept(call).items()
        if name in names and (source == "files" or not has_archives(name, call.data))
    }
    known |= {name: source for name, source in call.data.sources.items() if name in names}
    missing = [name for name in names if name not in known]
    if not missing:
        return known
    if not call.storage.bucket:
        check_folder(call.data)
    return {**known, **decide_sources(missing, call.data)}


def require_archives(call: Call, name: str) -> None:
    """Raise StudyError where an archive of the dataset is missing, with what can be done instead.

    With a bucket nothing is raised: the job that prepares a dataset looks into it first.
    """
    if call.storage.bucket or has_archives(name, call.data):
        return
    if call.data.source == "files":
        other = "take data.source: auto"
    else:
        named = name in call.data.sources
        other = f"leave {name} out of data.sources" if named else "take another study: --config study=NAME"
    if call.data.folder is None:
        what = f"data.dir names no folder; set it, or {other}"
    else:
        archive = first_missing(call.data.folder / name, get_dataset(name))
        assert archive is not None
        what = f"there is no {archive.name} in {call.data.dir}/{name}: put it there ({archive.url}), or {other}"
    raise StudyError(f"config: data.source: {name} is to come from files, and {what}")


def _kept(call: Call) -> dict[str, Source]:
    """What an earlier call decided, where this one has the same settings of its data."""
    path = Path(call.root) / "config.yaml"
    if call.data.source != "auto" or not path.is_file():
        return {}
    try:
        before = read_study(path).data
    except StudyError:
        return {}
    return before.sources if (before.source, before.dir) == ("auto", call.data.dir) else {}
