"""Where a study's data come from: decided once and kept in its config.yaml, so that a later call reads the same."""

from collections.abc import Sequence
from pathlib import Path

from whichdevice.config.load import read_study
from whichdevice.config.model import Call, Source, Study
from whichdevice.datasets.archives import first_missing
from whichdevice.datasets.registry import get_dataset
from whichdevice.datasets.sources import check_folder, decide_sources, lies_whole
from whichdevice.errors import StudyError
from whichdevice.measuring.request import DATASETS, dataset_folder
from whichdevice.planning.elsewhere import in_bucket


def data_sources(study: Call, names: Sequence[str], main: bool) -> dict[str, Source]:
    """The source of each dataset: what the call names, else what was kept, else decided now.

    In the main process, archives that have come to lie in `data.dir` since then replace what was taken without them,
    and a `data.dir` that is no folder raises StudyError unless the bucket has them; jobs may run where it is not.
    """
    known = {
        name: source
        for name, source in _kept(study).items()
        if name in names and (source == "files" or not main or not lies_whole(name, study.data))
    }
    known |= {name: source for name, source in study.data.sources.items() if name in names}
    missing = [name for name in names if name not in known]
    there = in_bucket(study) if missing and study.data.source == "auto" else {}
    if main and any("files" not in there.get(name, ()) for name in missing):
        check_folder(study.data)
    return {**known, **(decide_sources(missing, study.data, DATASETS, there) if missing else {})}


def require_archives(call: Call, study: Study, names: Sequence[str]) -> None:
    """Raise StudyError where one of these datasets is to come from files that are neither here nor prepared."""
    asked = [name for name in names if study.data.sources[name] == "files"]
    unprepared = [name for name in asked if not (dataset_folder(study, name) / "dataset.json").is_file()]
    missing = [name for name in unprepared if not lies_whole(name, call.data)]
    there = in_bucket(call) if missing else {}
    for name in missing:
        if "files" not in there.get(name, ()):
            raise StudyError(f"config: data.source: {name} is to come from files, and {_what_is_missing(name, call)}")


def _what_is_missing(name: str, call: Call) -> str:
    if call.data.folder is None:
        return "data.dir names no folder; set it, or take data.source: auto"
    archive = first_missing(call.data.folder / name, get_dataset(name))
    assert archive is not None
    return (
        f"there is no {archive.name} in {call.data.dir}/{name}: put it there ({archive.url}), or take data.source: auto"
    )


def _kept(study: Call) -> dict[str, Source]:
    """What an earlier call decided, where this one says the same of its data."""
    path = Path(study.root) / "config.yaml"
    if study.data.source != "auto" or not path.is_file():
        return {}
    try:
        before = read_study(path).data
    except StudyError:
        return {}
    return before.sources if (before.source, before.dir) == ("auto", study.data.dir) else {}
