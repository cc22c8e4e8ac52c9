"""Where a study's data come from: decided once and kept in its config.yaml, so that a later call reads the same."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from whichdevice.config.load import read_study
from whichdevice.config.model import Call, Source
from whichdevice.datasets.archives import first_missing
from whichdevice.datasets.registry import get_dataset
from whichdevice.datasets.sources import check_folder, decide_sources, lies_whole
from whichdevice.errors import StudyError
from whichdevice.measuring.request import DATASETS, dataset_folder

if TYPE_CHECKING:
    from whichdevice.planning.study_plan import StudyPlan


def data_sources(study: Call, names: Sequence[str], main: bool) -> dict[str, Source]:
    """The source of each dataset: what the call names, else what was kept, else decided now.

    In the main process, archives that have come to lie in `data.dir` since then replace what was taken without them,
    and a `data.dir` that is no folder raises StudyError unless a bucket may have them; jobs may run where it is not.
    """
    known = {
        name: source
        for name, source in _kept(study).items()
        if name in names and (source == "files" or not main or not lies_whole(name, study.data))
    }
    known |= {name: source for name, source in study.data.sources.items() if name in names}
    missing = [name for name in names if name not in known]
    if main and missing and not study.storage.bucket:
        check_folder(study.data)
    return {**known, **(decide_sources(missing, study.data, DATASETS) if missing else {})}


def require_archives(plan: "StudyPlan") -> None:
    """Raise StudyError where a run that is still to be made reads files that are neither here nor prepared.

    With a bucket nothing is raised: the job that prepares a dataset looks into it first.
    """
    call, study = plan.call, plan.study
    if call.storage.bucket:
        return
    asked = [name for name in plan.datasets() if study.data.sources[name] == "files"]
    unprepared = [name for name in asked if not (dataset_folder(study, name) / "dataset.json").is_file()]
    missing = [name for name in unprepared if not lies_whole(name, call.data)]
    read = _still_read(plan) if missing else set()
    for name in missing:
        if name in read:
            raise StudyError(f"config: data.source: {name} is to come from files, and {_what_is_missing(name, call)}")


def _still_read(plan: "StudyPlan") -> set[str | None]:
    """Datasets of runs that have no record yet, or will be measured again."""
    runs = [
        run
        for run, record in zip(plan.wanted(), map(Path, plan.records(plan.wanted())), strict=True)
        if plan.call.retry is not None or not record.is_file() or plan.is_outdated(run.path)
    ]
    return {plan.dataset_of(run.cell.workload) for run in runs}


def _what_is_missing(name: str, call: Call) -> str:
    if call.data.source == "files":
        other = "take data.source: auto"
    else:
        named = name in call.data.sources
        other = f"leave {name} out of data.sources" if named else "take another study: --config study=NAME"
    if call.data.folder is None:
        return f"data.dir names no folder; set it, or {other}"
    archive = first_missing(call.data.folder / name, get_dataset(name))
    assert archive is not None
    return f"there is no {archive.name} in {call.data.dir}/{name}: put it there ({archive.url}), or {other}"


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
