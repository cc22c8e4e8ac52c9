"""Where data come from is decided once for a study, and kept until the user says otherwise."""

from pathlib import Path
from typing import Any

import pytest
import synthetic
import yaml
from planning.planned import CONFIG

from whichdevice.base.errors import StudyError
from whichdevice.models.datasets.base import get_dataset
from whichdevice.study.config.load import write_study
from whichdevice.study.planning import sources
from whichdevice.study.planning.study_plan import StudyPlan
from whichdevice.study.records.store import write_record
from whichdevice.study.request import planned_record


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names that sources were decided for, call by call, and what they are decided to be: `decided.found`."""

    class Calls(list):
        found = "standin"

    calls = Calls()

    def decide(names: Any, data: Any) -> dict[str, str]:
        calls.append(list(names))
        return {name: data.source if data.source != "auto" else calls.found for name in names}

    monkeypatch.setattr(sources, "decide_sources", decide)
    return calls


def test_sources_are_decided_once_and_kept(plan, decided):
    first = plan(data={"source": "auto"})
    assert first.study.data.sources == {"mnist": "standin"}
    write_study(first.study, Path(first.study.root, "config.yaml"))
    kept = yaml.safe_load(Path("results/planned/config.yaml").read_text(encoding="utf-8"))
    assert kept["data"]["sources"] == {"mnist": "standin"}
    decided.found = "files"
    assert plan(data={"source": "auto"}).study.data.sources == {"mnist": "standin"}
    assert decided == [["mnist"]]


def test_a_new_dataset_alone_is_decided_later(plan, decided):
    first = plan(data={"source": "auto"})
    write_study(first.study, Path(first.study.root, "config.yaml"))
    decided.found = "files"
    more = plan(data={"source": "auto"}, workloads={**CONFIG["workloads"], "fashion_cnn": {}})
    assert more.study.data.sources == {"mnist": "standin", "fashion_mnist": "files"}
    assert decided == [["mnist"], ["fashion_mnist"]]


@pytest.mark.parametrize(
    "data", [{"source": "files", "dir": "archives"}, {"source": "auto", "sources": {"mnist": "files"}}]
)
def test_a_source_that_the_user_names_replaces_the_kept_one(plan, decided, data):
    first = plan(data={"source": "auto"})
    write_study(first.study, Path(first.study.root, "config.yaml"))
    assert plan(data=data).study.data.sources == {"mnist": "files"}


def test_a_folder_of_archives_that_was_completed_later_is_taken(plan, decided):
    data = {"source": "auto", "dir": "archives"}
    Path("archives/mnist").mkdir(parents=True)
    first = plan(data=data)
    write_study(first.study, Path(first.study.root, "config.yaml"))
    decided.found = "files"
    assert plan(data=data).study.data.sources == {"mnist": "standin"}
    for archive in get_dataset("mnist").archives:
        Path("archives/mnist", archive.name).touch()
    assert plan(data=data).study.data.sources == {"mnist": "files"}


def require_archives(planned: StudyPlan) -> None:
    """What the workflow asks of the planner before it prepares a dataset."""
    for name in planned.datasets(planned.to_measure()):
        planned.archives(name)


def test_archives_that_are_nowhere_stop_the_call_before_any_job(plan):
    def require(dir: str | None = None, bucket: str | None = None) -> None:
        planned = plan(data={"source": "files", "dir": dir}, storage={"bucket": bucket})
        require_archives(planned)

    with pytest.raises(StudyError, match=r"^config: data\.source: mnist is to come from files, and data\.dir names no"):
        require()
    with pytest.raises(StudyError, match=r"and there is no train-images\S+ in /nowhere/mnist: put it there \(http"):
        require("/nowhere")
    matmul = plan(data={"source": "files", "dir": "/nowhere"}, only={"workload": "matmul"})
    require_archives(matmul)  # no run of this call reads them
    require("/nowhere", bucket="bucket")  # where the job looks first
    Path("archives/mnist").mkdir(parents=True)
    for archive in get_dataset("mnist").archives:
        Path("archives/mnist", archive.name).touch()
    require("archives")
    prepared = Path(plan(data={"source": "files", "dir": "archives"}).dataset_json("mnist"))
    prepared.parent.mkdir(parents=True)
    prepared.touch()
    require("/nowhere")  # prepared by an earlier call


def test_finished_runs_need_no_archives(plan):
    planned = plan(data={"source": "files", "dir": "/nowhere"})
    for run in planned.runs:
        path = Path(planned_record(planned.study, run))
        path.parent.mkdir(parents=True)
        write_record(synthetic.record_of_this_code(planned.study, run), path)
    require_archives(planned)
    Path(planned.records(planned.wanted())[-1]).unlink()
    with pytest.raises(StudyError, match=r"mnist is to come from files"):
        require_archives(planned)


def test_a_study_whose_sources_are_kept_is_told_to_take_another_name(plan):
    planned = plan(data={"source": "auto", "sources": {"mnist": "files"}})
    with pytest.raises(StudyError, match=r"data\.dir names no folder; set it, or leave mnist out of data\.sources$"):
        require_archives(planned)
    write_study(planned.study, Path(planned.study.root, "config.yaml"))
    with pytest.raises(StudyError, match=r"set it, or take another study: --config study=NAME$"):
        require_archives(plan(data={"source": "auto"}))
